# twin.cmake: writes a copy of a source file with replaced lines:
#
#     cmake -DHOW=<twin> -DFILE=<file> -DFROM=<its path> -DTO=<copy> -P twin.cmake
#
# <twin> has the changes: after a line "file <file>", blocks of "<<<<", the original lines, "====",
# the replacement, ">>>>". The original must occur in the file exactly once: a twin whose lines have
# changed has to be reconsidered.

file(READ ${HOW} how)
file(READ ${FROM} text)
string(FIND "${how}" "file ${FILE}\n" start)
string(SUBSTRING "${how}" ${start} -1 rest)
string(FIND "${rest}" "\nfile " end)
string(SUBSTRING "${rest}" 0 ${end} rest)
set(rest "${rest}\n")
set(blocks 0)
while(rest MATCHES "<<<<\n")
  string(FIND "${rest}" "<<<<\n" start)
  math(EXPR start "${start} + 5")
  string(SUBSTRING "${rest}" ${start} -1 rest)
  string(FIND "${rest}" "====\n" middle)
  string(FIND "${rest}" ">>>>\n" end)
  if(middle LESS 0 OR end LESS middle)
    message(FATAL_ERROR "${HOW}: a block is not whole")
  endif()
  string(SUBSTRING "${rest}" 0 ${middle} old)
  math(EXPR middle "${middle} + 5")
  math(EXPR length "${end} - ${middle}")
  string(SUBSTRING "${rest}" ${middle} ${length} new)
  string(SUBSTRING "${rest}" ${end} -1 rest)
  string(FIND "${text}" "${old}" first)
  string(FIND "${text}" "${old}" last REVERSE)
  if(first LESS 0 OR NOT first EQUAL last)
    message(FATAL_ERROR
      "${HOW}: this must stand in ${FROM} exactly once, and does not:\n${old}"
      "If the source has changed, change the twin so that it breaks the same thing again.")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  math(EXPR blocks "${blocks} + 1")
endwhile()
if(blocks EQUAL 0)
  message(FATAL_ERROR "${HOW}: nothing is replaced")
endif()
file(WRITE ${TO} "${text}")
