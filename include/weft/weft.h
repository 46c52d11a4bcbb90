/*
 * weft/weft.h: all of weft. Each header can also be included on its own.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/base.h>
#include <weft/fiber.h>
#include <weft/local.h>
#include <weft/runtime.h>
#include <weft/time.h>
#include <weft/timer.h>
#include <weft/wg.h>

#endif
