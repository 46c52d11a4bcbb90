#!/usr/bin/env bash
# frame.subproject: weft as a subproject in CMake, in a folder whose name contains a space.
#
#     subproject.sh cmake build-dir
#
# The project only calls add_subdirectory. weft must be optimised, warnings must not be errors, and
# the project must not build or install weft's tests and programs.
set -euo pipefail

cmake=$1
build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-cc}

work=$build/frame-subproject
rm -rf "$work"
project="$work/a project"
mkdir -p "$project/parts/weft"
cp -r "$root/CMakeLists.txt" "$root/cmake" "$root/src" "$root/include" "$root/tools" \
    "$project/parts/weft"
cat > "$project/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.18)
project(parent C)
add_subdirectory(parts/weft)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE weft::static)
install(TARGETS hello)
END
cat > "$project/hello.c" << 'END'
#include <stdio.h>
#include <weft/weft.h>

static void say(void *arg)
{
    puts(arg);
}

int main(void)
{
    weft_fiber *fiber;
    return weft_spawn(&fiber, say, "done", NULL) != 0 || weft_join(fiber) != 0;
}
END

generator=()
if command -v ninja > /dev/null; then
    generator=(-G Ninja)
fi
"$cmake" "${generator[@]}" -S "$project" -B "$project/build" -DCMAKE_C_COMPILER="$cc" \
    > "$work/log"
"$cmake" --build "$project/build" >> "$work/log" || { tail -n 20 "$work/log"; exit 1; }
[ "$("$project/build/hello")" = done ] || { echo "the program fails"; exit 1; }

commands=$project/build/compile_commands.json
weft_commands=$(grep '"command".* -c .*/parts/weft/src/.*\.c' "$commands") ||
    { echo "no command compiles weft"; exit 1; }
! grep -v -e ' -O2 ' <<< "$weft_commands" || { echo "weft is compiled without -O2"; exit 1; }
! grep -e '-Werror' <<< "$weft_commands" || { echo "a warning would be an error"; exit 1; }
! grep -e '"file".*/parts/weft/\(tests\|tools\|bench\)/' "$commands" ||
    { echo "more than the library is built"; exit 1; }

"$cmake" --install "$project/build" --prefix "$work/prefix" >> "$work/log"
installed=$(cd "$work/prefix" && find . -type f)
[ "$installed" = ./bin/hello ] || { echo "installed with the project: $installed"; exit 1; }
echo "builds only the library, optimised"
