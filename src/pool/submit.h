/*
 * submit.h: what the calls that submit share.
 */
#ifndef WEFT_POOL_SUBMIT_H
#define WEFT_POOL_SUBMIT_H

#include "pool/admission.h"

/* What the options say; false if they make no sense. */
bool weft__options_valid(const weft_submit_options *options, const void *arg);
/* Fills a zeroed record of a kind, followed by room for the copy of the argument at `copy`; and
 * the offer of it. */
void weft__task_fill(struct task *task, const struct task_kind *kind, void *copy, const void *arg,
                     const weft_submit_options *options);
void weft__offer_fill(struct offer *offer, struct task *task, const weft_submit_options *options);

#endif
