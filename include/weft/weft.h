/*
 * weft/weft.h: all of weft. Each header can also be included on its own.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/address.h>
#include <weft/barrier.h>
#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/chan.h>
#include <weft/cond.h>
#include <weft/context.h>
#include <weft/fd.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/group.h>
#include <weft/limiter.h>
#include <weft/local.h>
#include <weft/mutex.h>
#include <weft/net.h>
#include <weft/object_pool.h>
#include <weft/once.h>
#include <weft/panic.h>
#include <weft/pipe.h>
#include <weft/pool.h>
#include <weft/pools.h>
#include <weft/process.h>
#include <weft/resolve.h>
#include <weft/runtime.h>
#include <weft/rwmutex.h>
#include <weft/schedule.h>
#include <weft/select.h>
#include <weft/sem.h>
#include <weft/signal.h>
#include <weft/spin.h>
#include <weft/task.h>
#include <weft/ticker.h>
#include <weft/time.h>
#include <weft/timer.h>
#include <weft/wg.h>

#endif
