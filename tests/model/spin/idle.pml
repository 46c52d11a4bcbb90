/*
 * idle.pml: the protocol of sched/core/idle.c alone: no ready fiber is forgotten.
 *
 * Machines search, retire and sleep; producers publish a task each and look for idle processors. A task may
 * block its machine for good, which then keeps its processor, so no other machine can be relied on. There
 * are as many processors as machines. Each step is one operation of the C code, in the order that the
 * barriers enforce; a missing barrier is modelled as two steps in the other order (the twins). A section
 * under the scheduler's lock is one step.
 *
 * Invariant: when no process can run, no task waits while a processor is idle.
 */
#define MACHINES 3
#ifndef TASKS
#define TASKS 2
#endif

byte queue, idle = MACHINES, spinning;
bool asleep[MACHINES] = true, woken[MACHINES];

/* weft__wake_one, try_wake_one and anyone_needed */
inline wake_one() {
    do
    :: atomic {
        if
        :: spinning == 0 -> spinning = 1
        :: else -> break
        fi
       };
       atomic {
       sleeper = MACHINES;
       if
       :: idle > 0 ->
          idle--;
          /* there are as many processors as machines: one sleeps */
          if
          :: asleep[0] -> sleeper = 0
          :: asleep[1] -> sleeper = 1
          :: asleep[2] -> sleeper = 2
          fi;
          asleep[sleeper] = false
       :: else
       fi
       };
       if
       :: sleeper < MACHINES -> woken[sleeper] = true; break
       :: else -> spinning--
       fi;
       some = asleep[0] || asleep[1] || asleep[2];
       if
       :: some && queue > 0
       :: else -> break
       fi
    od
}

proctype producer() {
    byte sleeper;
    bool some, trusted = false;
#ifdef TRUSTS_SPINNER
    trusted = spinning > 0; /* its own store has not arrived */
#endif
    queue++;
    if
    :: idle > 0 ->
       if
       :: trusted || spinning > 0
       :: else -> wake_one()
       fi
    :: else
    fi
}

proctype machine(byte me) {
    byte sleeper;
    bool some, spins;
sleeps:
end_sleeps:
    woken[me];
    woken[me] = false;
    spins = true; /* counted by the process that woke it */
search:
    atomic {
        if
        :: queue > 0 -> queue--; goto found
        :: else
        fi
    };
    if
    :: !spins -> atomic { spinning++; spins = true }; goto search /* it may spin */
    :: true
    fi;
#ifdef LOOKS_EARLY
    some = queue > 0;
#endif
    atomic { idle++; asleep[me] = true };
    if
    :: spins -> spins = false; spinning--
    :: else
    fi;
#ifdef SLEEPS_BLIND
    some = false;
#elif !defined(LOOKS_EARLY)
    some = queue > 0;
#endif
    if
    :: some ->
       atomic {
           if
           :: asleep[me] && idle > 0 -> asleep[me] = false; idle--
           :: else -> goto sleeps
           fi
       };
       spinning++;
       spins = true;
       goto search
    :: else
    fi;
    goto sleeps;
found:
    if
    :: spins ->
       spins = false;
       atomic { spinning--; some = spinning == 0 };
#ifndef FOUND_ALONE
       if
       :: some && idle > 0 ->
          if
          :: queue > 0 -> wake_one()
          :: else
          fi
       :: else
       fi
#endif
    :: else
    fi;
    if
    :: goto search /* the task has ended */
    :: true        /* it blocks */
    fi;
end_blocked:
    false
}

proctype observer() {
end_observer:
    timeout -> assert(!(queue > 0 && idle > 0)); assert(spinning == 0)
}

init {
    atomic {
        byte i;
        for (i : 0 .. MACHINES - 1) { run machine(i) }
        for (i : 1 .. TASKS) { run producer() }
        run observer()
    }
}
