/*
 * schedule.c: prints the schedule of a failed execution.
 *
 * One line per operation, with the thread, the place, the new value, and the line in the source.
 * addr2line (binutils) finds the lines; without it addresses are shown. The operations of atomic.h
 * are inlined into weft's functions, and those into each other: the first name is the innermost
 * function outside of atomic.h, followed by those it is inlined into.
 */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVENTS_MOST = 20000, NAMES_MOST = 64, LINE_MOST = 256, COMMAND_MOST = 1 << 17 };

struct event {
    const char *thread, *what;
    const void *address, *site;
    uint64_t value;
};

struct name {
    const void *address;
    const char *text;
};

/* Not part of the world: see explorer.h. */
static struct schedule {
    bool wanted;
    int events_count, names_count;
    struct name names[NAMES_MOST];
    struct event events[EVENTS_MOST];
    char lines[EVENTS_MOST][LINE_MOST];
} * schedule;

extern char __executable_start[];

void schedule_start(void)
{
    schedule = calloc(1, sizeof *schedule);
    if (schedule == NULL)
        abort();
}

void schedule_name(const void *address, const char *name)
{
    for (int i = 0; i < schedule->names_count; i++)
        if (schedule->names[i].address == address)
            return;
    if (schedule->names_count < NAMES_MOST)
        schedule->names[schedule->names_count++] = (struct name){address, name};
}

void schedule_begin(void)
{
    schedule->wanted = true;
    schedule->events_count = 0;
}

bool schedule_wanted(void)
{
    return schedule->wanted;
}

void schedule_add(const char *thread, const char *what, const void *address, uint64_t value,
                  const void *site)
{
    if (schedule->events_count < EVENTS_MOST)
        schedule->events[schedule->events_count++] =
            (struct event){thread, what, address, site, value};
}

/* The address in the program file of the call that returns to `site`. */
static size_t in_file(const void *site)
{
    return (size_t)((const char *)site - __executable_start) - 1;
}

/* Reads one answer of addr2line: "0x1234: function at file:line", and lines for inlining
 * functions. */
static void note_line(char *text, const char *line)
{
    const char *at = line;
    if (strncmp(line, " (inlined by) ", 14) == 0)
        at = line + 14;
    else if (strstr(line, ": ") != NULL)
        at = strstr(line, ": ") + 2;
    size_t used = strlen(text), length = strcspn(at, "\n");
    if (strstr(at, "at atomic.h:") != NULL || used + length + 4 > LINE_MOST)
        return;
    snprintf(text + used, LINE_MOST - used, "%s%.*s", used > 0 ? " < " : "", (int)length, at);
}

static void find_lines(void)
{
    char *command = malloc(COMMAND_MOST), line[1024];
    if (command == NULL)
        return;
    size_t used =
        (size_t)snprintf(command, COMMAND_MOST,
                         "addr2line -e /proc/%d/exe -a -p -f -i -s 2> /dev/null", (int)getpid());
    int index = -1;
    for (int i = 0; i < schedule->events_count && used < COMMAND_MOST - 32; i++)
        used += (size_t)snprintf(
            command + used, COMMAND_MOST - used, " 0x%zx",
            schedule->events[i].site != NULL ? in_file(schedule->events[i].site) : 0);
    FILE *answers = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command */
    while (answers != NULL && fgets(line, sizeof line, answers) != NULL) {
        if (strncmp(line, "0x", 2) == 0)
            index++;
        if (index >= 0 && index < schedule->events_count && schedule->events[index].site != NULL)
            note_line(schedule->lines[index], line);
    }
    if (answers != NULL)
        pclose(answers);
    free(command);
}

static void print_place(const void *address)
{
    const struct name *near = NULL;
    for (int i = 0; i < schedule->names_count; i++) {
        const struct name *name = &schedule->names[i];
        if (name->address <= address && (near == NULL || name->address > near->address))
            near = name;
    }
    size_t offset =
        near != NULL ? (size_t)((const char *)address - (const char *)near->address) : 0;
    char text[64];
    if (address == NULL)
        text[0] = '\0';
    else if (near == NULL || offset > 16384)
        snprintf(text, sizeof text, "%p", address);
    else if (offset == 0)
        snprintf(text, sizeof text, "%s", near->text);
    else
        snprintf(text, sizeof text, "%s+%zu", near->text, offset);
    printf(" %-24s", text);
}

void schedule_print(void)
{
    find_lines();
    for (int i = 0; i < schedule->events_count; i++) {
        const struct event *event = &schedule->events[i];
        printf("%4d %-10s %-20s", i, event->thread, event->what);
        print_place(event->address);
        printf(" %-18llx %s", (unsigned long long)event->value, schedule->lines[i]);
        if (event->site != NULL && schedule->lines[i][0] == '\0')
            printf("at 0x%zx", in_file(event->site));
        printf("\n");
    }
}
