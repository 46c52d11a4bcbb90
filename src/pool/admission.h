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

/* A submitter that waits; on its stack, or in a stash. Without a waiter: a record that stands in
 * line by itself. */
struct submitter {
    struct link link;       /* first: submitter_of */
    struct link group_link; /* among those that submit tasks of the same group */
    struct waiter *waiter;
    struct offer offer;
    int error; /* once it was claimed, or served */
    bool own;  /* it is one of the pool's own tasks, which may submit while the pool stops */
    bool
        left; /* it was taken out of the line after it had given up, or without a waiter when the pool stopped; latch */
    bool naps;   /* it is not to be woken: it looks by itself, soon; latch */
    bool served; /* while it napped, or without a waiter; latch */
};

/* Offers a task; 0 or an error. The record is the pool's if it returns 0, and else still the
 * caller's. */
int weft__pool_offer(weft_pool *pool, const struct offer *offer);
/* Under the latch: puts a task inside; 0, or -ENOMEM. */
int weft__pool_admit(weft_pool *pool, const struct offer *offer);
/* Under the latch: admits the submitters that wait and fit. */
void weft__line_serve(weft_pool *pool, struct deferred_wakes *wakes);
/* Under the latch: turns away all submitters that wait, but for the pool's own tasks
 * unless its context has ended. */
void weft__line_refuse(weft_pool *pool, int error, struct deferred_wakes *wakes);
/* Under the latch: turns away those that wait to submit a task of that group, which is
 * cancelled. */
void weft__line_refuse_group(weft_pool *pool, struct awaited *group, int error,
                             struct deferred_wakes *wakes);
/* Under the latch: a record stands in line by itself, whatever the policy, and is served at once
 * if there is room: `served`. And: it is not to be admitted any more. */
void weft__line_join(weft_pool *pool, struct submitter *submitter, struct deferred_wakes *wakes);
void weft__line_withdraw(weft_pool *pool, struct submitter *submitter);
/* Outside the latch: a task, plain or with a record, will not run. */
void weft__pool_notify_drop(weft_pool *pool, const struct plain_task *plain, struct task *record);

/* The caller runs a task of the pool: in a worker, or as a submitter (WEFT_CALLER_RUNS). */
bool weft__pool_is_own(const weft_pool *pool);
/* The worker that the caller runs in, of a pool with that latch: the pool's, or one of its tree;
 * NULL: none, it holds no place. */
struct worker *weft__pool_place(const struct latch *tree);
/* The wait of a submitter for room. */
extern const struct wait_kind weft__wait_submit;
/* The innermost task that the caller runs by WEFT_CALLER_RUNS; NULL: none. */
struct caller_run *weft__caller_run(void);

#endif
