/*
 * pthread_chan.c: a bounded queue between plain threads, made of a channel.
 *
 * The program uses no fiber. Readers of an empty channel and writers of a full one block their
 * threads. Closing the channel tells the readers that no more elements will come.
 */
#include <pthread.h>
#include <stdio.h>
#include <weft/chan.h>

enum { WRITERS = 3, READERS = 2, EACH = 10000 };

static weft_chan *queue;

static void *writer(void *arg)
{
    for (long number = 1; number <= EACH; number++)
        if (weft_chan_send(queue, &number) != 0)
            break; /* main notices it in the sum */
    return arg;
}

static void *reader(void *arg)
{
    long number, *sum = arg;
    while (weft_chan_receive(queue, &number) == 0)
        *sum += number;
    return NULL;
}

int main(void)
{
    pthread_t writers[WRITERS], readers[READERS];
    long sums[READERS] = {0}, sum = 0;
    if (weft_chan_make(&queue, sizeof(long), 64) != 0)
        return 1;
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&readers[i], NULL, reader, &sums[i]) != 0)
            return 1;
    for (int i = 0; i < WRITERS; i++)
        if (pthread_create(&writers[i], NULL, writer, NULL) != 0)
            return 1;

    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    weft_chan_close(queue);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
        printf("reader %d: %ld\n", i, sums[i]);
        sum += sums[i];
    }
    weft_chan_destroy(queue);

    long expected = (long)WRITERS * EACH * (EACH + 1) / 2;
    if (sum != expected) {
        fprintf(stderr, "pthread_chan: the sum is %ld instead of %ld\n", sum, expected);
        return 1;
    }
    return 0;
}
