/*
 * admission.h: the limit, and the line of submitters that wait for it.
 */
#ifndef WEFT_POOL_ADMISSION_H
#define WEFT_POOL_ADMISSION_H

#include "pool/dispatch.h"

/* What is offered to the pool. */
struct offer {
    struct plain_task plain;
    struct task *record; /* NULL: the plain task is all */
    int64_t deadline;    /* WEFT_NEVER: a plain submit, by which the pool's own tasks never wait */
    bool tries;          /* -EAGAIN, where -ETIMEDOUT would be said */
};

/* Offers a task; 0 or an error. The record is the pool's if it returns 0, and else still the caller's. */
int weft__pool_offer(weft_pool *pool, const struct offer *offer);
/* Under the latch: puts a task inside; 0, or -ENOMEM. */
int weft__pool_admit(weft_pool *pool, const struct offer *offer);
/* Under the latch: admits the submitters that wait and fit. */
void weft__line_serve(weft_pool *pool, struct errands *errands);
/* Under the latch: turns away all submitters that wait, but for the pool's own tasks. */
void weft__line_refuse(weft_pool *pool, int error, struct errands *errands);
/* Under the latch: turns away those that wait to submit a task of that group, which is cancelled. */
void weft__line_refuse_group(weft_pool *pool, struct group_line *group, struct errands *errands);
/* Outside the latch: a task, plain or with a record, will not run. */
void weft__pool_tell_drop(weft_pool *pool, const struct plain_task *plain, struct task *record);

/* The caller runs a task of the pool: in a worker, or as a submitter (WEFT_CALLER_RUNS). */
bool weft__pool_is_own(const weft_pool *pool);
/* The worker of the pool that the caller runs in; NULL: none, it holds no place. */
struct worker *weft__pool_place(const weft_pool *pool);
/* The innermost task that the caller runs by WEFT_CALLER_RUNS; NULL: none. */
struct caller_run *weft__caller_run(void);

#endif
