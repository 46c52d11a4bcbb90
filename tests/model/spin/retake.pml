/*
 * retake.pml: how a processor is taken from a machine that does not come back (sched/core/handoff.c).
 *
 * T runs user code and enters the runtime now and then; the monitor claims T, and if T is outside gives the
 * processor to another machine M, and T finds GONE in its claim word; a thief claims T in the same way,
 * steals, and releases the claim. Each step is one operation of the C code, in the order that the barriers
 * enforce.
 *
 * Invariants: one process at a time uses the private state of the processor, and it is the owner or has
 * claimed the owner; the processor always has a machine; no process waits forever.
 */
#define ROUNDS 3

mtype = { nobody, machine_t, machine_m };

bool inside, claimed, gone; /* T's mark, and the bits of T's claim word */
mtype owner = machine_t;
byte users;    /* of the private state */
bool m_has_it; /* M was given the processor */
bool ended;

#define USE users++; assert(users == 1); users--

proctype t() {
    byte rounds = 0;
    bool was_claimed;
    do
    :: rounds < ROUNDS ->
       rounds++;
#ifdef NO_BARRIER
       was_claimed = claimed;
       inside = true;
#else
       inside = true;
       was_claimed = claimed;
#endif
       do
       :: was_claimed ->
          inside = false;
          !claimed;
          inside = true;
          was_claimed = claimed
       :: else -> break
       od;
       if
       :: gone -> gone = false; break /* it has no processor: takes an idle one, or queues its fiber */
       :: else
       fi;
       assert(owner == machine_t);
       USE;
       inside = false
    :: else -> break
    od;
    ended = true
}

proctype monitor() {
    bool free;
    atomic {
        if
        :: claimed -> goto done
        :: else -> claimed = true
        fi
    };
    /* barrier_heavy */
#ifndef LOOKS_NOT
    if
    :: inside || owner != machine_t -> claimed = false; goto done
    :: else
    fi;
#endif
    owner = nobody;
    if
    :: free = true
    :: free = false /* no machine to be had */
    fi;
    if
    :: free ->
       owner = machine_m;
       m_has_it = true;
#ifdef GONE_LATE
       claimed = false;
       gone = true
#else
       atomic { claimed = false; gone = true }
#endif
    :: else ->
#ifdef BACK_LATE
       claimed = false;
       owner = machine_t
#else
       owner = machine_t;
       claimed = false
#endif
    fi;
done:
    skip
}

proctype thief() {
    atomic {
        if
        :: claimed -> goto done
        :: else -> claimed = true
        fi
    };
    if
    :: owner == machine_t && !inside -> USE
    :: else
    fi;
    claimed = false;
done:
    skip
}

proctype m() {
    byte rounds;
end_idle:
    m_has_it;
    for (rounds : 1 .. 2) {
        assert(owner == machine_m);
        USE
    }
}

proctype observer() {
end_observer:
    timeout -> assert(owner != nobody && !claimed && ended)
}

init {
    atomic { run t(); run m(); run monitor(); run thief(); run monitor(); run observer() }
}
