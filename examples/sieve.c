/*
 * sieve.c: the first primes, by a chain of fibers.
 *
 *     sieve [how many]
 *
 * A fiber counts 2, 3, 4, ... into a channel. The first number that comes out of a channel is a
 * prime; from then on a new fiber passes on only the numbers that this prime does not divide, into
 * the next channel. When main has enough primes it closes the last channel. The fiber that sends
 * there gets an error, closes the channel that it receives from, and so on, back to the one that
 * counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct filter {
    int prime;
    weft_chan *in, *out;
};

static void fail(const char *what, int error)
{
    fprintf(stderr, "sieve: %s: %s\n", what, weft_strerror(error));
    exit(1);
}

static weft_chan *make_channel(void)
{
    weft_chan *numbers;
    int error = weft_chan_make(&numbers, sizeof(int), 0);
    if (error != 0)
        fail("channel", error);
    return numbers;
}

/* The sender destroys a channel after the receiver has closed it. */
static void count_up(void *arg)
{
    weft_chan *out = arg;
    int number = 2;
    while (weft_chan_send(out, &number) == 0)
        number++;
    weft_chan_destroy(out);
}

static void let_through(void *arg)
{
    struct filter *filter = arg;
    int number, error = 0;
    while (error == 0 && weft_chan_receive(filter->in, &number) == 0)
        if (number % filter->prime != 0)
            error = weft_chan_send(filter->out, &number);
    weft_chan_close(filter->in);
    weft_chan_destroy(filter->out);
}

/* The primes by trial division, for comparison. */
static int prime_after(int number)
{
    for (;;) {
        int divisor = 2;
        number++;
        while (number % divisor != 0)
            divisor++;
        if (divisor == number)
            return number;
    }
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 500;
    if (count < 1 || count > 100000) {
        fprintf(stderr, "usage: sieve [how many primes: 1 to 100000]\n");
        return 2;
    }
    struct filter *filters = calloc((size_t)count, sizeof *filters);
    if (filters == NULL)
        fail("filters", -ENOMEM);

    weft_chan *numbers = make_channel();
    int error = weft_go(count_up, numbers);
    for (long i = 0; i < count && error == 0; i++) {
        struct filter *filter = &filters[i];
        *filter = (struct filter){.in = numbers, .out = make_channel()};
        error = weft_chan_receive(numbers, &filter->prime);
        if (error != 0)
            fail("receive", error);
        printf("%d%c", filter->prime, i % 10 == 9 || i == count - 1 ? '\n' : ' ');
        error = weft_go(let_through, filter);
        numbers = filter->out;
    }
    if (error != 0)
        fail("fiber", error);
    weft_chan_close(numbers);

    /* Returns when every fiber of the chain has ended. */
    error = weft_shutdown(WEFT_NEVER);
    if (error != 0)
        fail("shutdown", error);
    int expected = 1;
    for (long i = 0; i < count; i++) {
        expected = prime_after(expected);
        if (filters[i].prime != expected) {
            fprintf(stderr, "sieve: %d instead of %d\n", filters[i].prime, expected);
            return 1;
        }
    }
    free(filters);
    return 0;
}
