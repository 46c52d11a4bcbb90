/*
 * admission.h: the limit, and the line of submitters that wait for it.
 */
#ifndef WEFT_POOL_ADMISSION_H
#define WEFT_POOL_ADMISSION_H

#include "pool/dispatch.h"

/* A task that is offered to a pool. */
struct offer {
    struct plain_task plain;
    struct task *record; /* NULL: a plain task */
    int64_t deadline;    /* WEFT_NEVER: a plain submit, in which the pool's own tasks never wait */
    bool tries;          /* returns -EAGAIN in place of -ETIMEDOUT */
};

/* A submitter in line; on its stack, or in a stash. Without a waiter: a record that stands in line
 * by itself. */
struct submitter {
    struct link link;       /* first: submitter_of */
    struct link group_link; /* in the line of submitters of the same group */
    struct waiter *waiter;
    struct offer offer;
    int error; /* the answer; valid once the submitter was claimed or served */
    bool own;  /* one of the pool's own tasks: it may submit while the pool stops */
    /* Taken out of the line: after it had given up; or, without a waiter, by a stop. Latch. */
    bool left;
    bool naps;   /* it looks by itself soon, and is not to be woken; latch */
    bool served; /* it was answered; latch */
};

/* Offers a task: 0 or an error. The record belongs to the pool if it returns 0, else to the
 * caller. */
int weft__pool_offer(weft_pool *pool, const struct offer *offer);
/* Under the latch: puts a task into the queue, and counts it as in flight: 0, or -ENOMEM. */
int weft__pool_admit(weft_pool *pool, const struct offer *offer);
/* Under the latch: admits the first submitters in line, as many as there is room for. */
void weft__line_serve(weft_pool *pool, struct deferred_wakes *wakes);
/* Under the latch: refuses all submitters in line; the pool's own tasks only if its context has
 * ended. */
void weft__line_refuse(weft_pool *pool, int error, struct deferred_wakes *wakes);
/* Under the latch: refuses the submitters in line whose tasks are of that group, which is
 * cancelled. */
void weft__line_refuse_group(weft_pool *pool, struct awaited *group, int error,
                             struct deferred_wakes *wakes);
/* Under the latch: a record stands in line by itself (a submitter without a waiter), whatever the
 * policy, and is served at once if there is room: `served`; it is taken out again, and not
 * admitted. */
void weft__line_join(weft_pool *pool, struct submitter *submitter, struct deferred_wakes *wakes);
void weft__line_withdraw(weft_pool *pool, struct submitter *submitter);
/* Outside the latch: a task, plain or with a record, will not run. Its handle or group says so, or
 * on_drop is called; the record is released. */
void weft__pool_notify_drop(weft_pool *pool, const struct plain_task *plain, struct task *record);

/* The caller runs a task of the pool, of its tree or of its family: in a worker, or as a submitter
 * (WEFT_CALLER_RUNS). */
bool weft__pool_is_own(const weft_pool *pool);
/* The worker that the caller runs in, if it holds a place of a pool with that latch: the pool, or
 * another one of its tree. Else NULL. */
struct worker *weft__pool_place(const struct latch *tree);
/* The kind of wait of a submitter in line. */
extern const struct wait_kind weft__wait_submit;
/* The innermost task that the caller runs by WEFT_CALLER_RUNS; NULL: none. */
struct caller_run *weft__caller_run(void);

#endif
