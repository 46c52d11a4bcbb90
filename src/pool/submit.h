/*
 * submit.h: what the calls that submit share.
 */
#ifndef WEFT_POOL_SUBMIT_H
#define WEFT_POOL_SUBMIT_H

#include "pool/admission.h"

/* The options are in range, and fit the argument. */
bool weft__options_valid(const weft_submit_options *options, const void *arg);
/* Fills a zeroed record of that kind, with room for the copy of the argument at `copy`;
 * weft__offer_fill fills the offer of it. */
void weft__task_fill(struct task *task, const struct task_kind *kind, void *copy, const void *arg,
                     const weft_submit_options *options);
void weft__offer_fill(struct offer *offer, struct task *task, const weft_submit_options *options);

#endif
