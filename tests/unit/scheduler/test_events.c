/* The way out: order, promises over swaps, jobs freed when their end was taken (the sanitizers watch). */
#include "scheduler/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void comes_out_in_order_over_many_swaps(void **state)
{
    roco_events events;
    roco_event_list list = {0};
    uint64_t sent = 0, seen = 0;
    roco_events_init(&events);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < round * 7; i++) {
            roco_event event = {.kind = ROCO_EVENT_TOKEN, .job = ++sent};
            assert_int_equal(roco_events_push(&events, &event, 0, NULL), ROCO_OK);
        }
        roco_events_take(&events, &list);
        for (size_t i = 0; i < list.size; i++)
            assert_int_equal(list.data[i].job, ++seen);
        assert_int_equal(seen, sent);
    }
    roco_events_take(&events, &list);
    assert_int_equal(list.size, 0);
    roco_event_list_free(&list);
    roco_events_free(&events);
}

static void promised_room_survives_a_swap(void **state)
{
    enum { JOBS = 500 };
    roco_events events;
    roco_event_list list = {0};
    size_t seen = 0;
    roco_events_init(&events);
    assert_int_equal(roco_events_promise(&events, JOBS * ROCO_PROMISES_PER_JOB), ROCO_OK);
    for (int i = 0; i < JOBS; i++) {
        roco_event event = {.kind = ROCO_EVENT_STARTED};
        assert_true(events.ready.capacity >= events.ready.size + events.promised);
        assert_int_equal(roco_events_push(&events, &event, 1, NULL), ROCO_OK);
        event.kind = ROCO_EVENT_TOKEN;
        assert_int_equal(roco_events_push(&events, &event, 0, NULL), ROCO_OK);
        if (i % 37 == 0) {
            roco_events_take(&events, &list);
            seen += list.size;
        }
        event.kind = ROCO_EVENT_FINISHED;
        assert_int_equal(roco_events_push(&events, &event, 1, roco_job_open()), ROCO_OK);
    }
    assert_int_equal(events.promised, 0);
    roco_events_take(&events, &list);
    assert_int_equal(seen + list.size, JOBS * 3);
    roco_event_list_free(&list);
    roco_events_free(&events);
}

static void what_nobody_took_is_freed(void **state)
{
    roco_events events;
    roco_events_init(&events);
    assert_int_equal(roco_events_promise(&events, ROCO_PROMISES_PER_JOB), ROCO_OK);
    roco_event event = {.kind = ROCO_EVENT_FINISHED};
    assert_int_equal(roco_events_push(&events, &event, ROCO_PROMISES_PER_JOB, roco_job_open()), ROCO_OK);
    roco_events_free(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_out_in_order_over_many_swaps),
        cmocka_unit_test(promised_room_survives_a_swap),
        cmocka_unit_test(what_nobody_took_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
