/*
 * answer.c: the subset of HTTP that tells the status of a response and where it ends.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "flood.h"

void answer_start(struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
}

static void head_is_whole(struct answer *answer)
{
    const char *length = strcasestr(answer->head, "\r\ncontent-length:");
    answer->status = (int)strtol(answer->head + strlen("HTTP/1.1 "), NULL, 10);
    answer->closes = strcasestr(answer->head, "\r\nconnection: close") != NULL;
    answer->body_left =
        length != NULL ? strtoll(length + strlen("\r\ncontent-length:"), NULL, 10) : -1;
    if (answer->status < 100 || answer->status > 599)
        answer->status = 599;
}

/* Adds bytes to the head. Returns how many of them belong to the head. */
static int head_take(struct answer *answer, const char *data, int size)
{
    int old = answer->head_size, room = (int)sizeof answer->head - 1 - old;
    int taken = size < room ? size : room;
    memcpy(answer->head + old, data, (size_t)taken);
    answer->head[old + taken] = 0;
    char *end = strstr(answer->head, "\r\n\r\n");
    if (end == NULL && taken == room) {
        answer->status = 599; /* too long for weft-flood */
        answer->body_left = -1;
        return size;
    }
    answer->head_size += taken;
    if (end == NULL)
        return taken;
    int used = (int)(end - answer->head) + 4;
    end[2] = 0;
    head_is_whole(answer);
    return used - old;
}

int answer_take(struct answer *answer, const char *data, int size, bool bodiless)
{
    int used = 0;
    if (answer->status == 0) {
        used = head_take(answer, data, size);
        if (answer->status == 0)
            return used;
        if (bodiless)
            answer->body_left = 0;
    }
    if (answer->body_left < 0)
        return size;
    int body = size - used;
    body = body < answer->body_left ? body : (int)answer->body_left;
    answer->body_left -= body;
    answer->whole = answer->body_left == 0;
    return used + body;
}
