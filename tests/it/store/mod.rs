//! The store's conformance suite: every case runs against SQLite and PostgreSQL alike. What only one
//! of them has (a file, replicas, a network) is in its own module.

mod begin;
mod decide;
mod decide_turn;
mod directory;
pub(crate) mod instances;
mod lifecycle;
mod listing;
mod notifications;
pub(crate) mod place;
mod postgres;
pub(crate) mod proxy;
mod races;
mod sealing;
mod sqlite;
mod sweep;
mod watch;
pub(crate) mod world;

/// Runs each case on both stores.
macro_rules! conformance {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        mod on_sqlite {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = super::place::SqlitePlace::new();
                    super::$module::$case(super::world::World::new(place.open().await)).await;
                }
            )+)+
        }

        mod on_postgres {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = super::place::PostgresPlace::new().await;
                    super::$module::$case(super::world::World::new(place.open().await)).await;
                    place.remove().await;
                }
            )+)+
        }
    };
}

conformance! {
    begin:
        a_new_conversation_knows_nothing,
        the_same_key_replays_and_other_bodies_conflict,
        keys_belong_to_organisation_caller_and_endpoint,
        a_begun_request_is_taken_over_after_its_lease,
        an_attempt_is_recorded_once,
        a_call_is_judged_once_whatever_the_key,
        a_call_of_another_key_is_waited_for_and_then_taken_over,
        calls_that_were_not_begun_are_not_recorded,
        every_outcome_comes_back_as_it_was,
        modes_are_said_stored_inherited_or_refused,
        counts_are_reserved_and_given_back,
        writes_of_the_turn_are_those_approved_or_waiting,
        the_first_definition_is_pinned_and_a_person_may_pin_another,
        switches_hold_from_the_next_judgement_on;
    decide:
        a_person_decides_once,
        a_decision_after_the_deadline_finds_it_expired,
        a_decision_checked_against_another_mode_does_not_count,
        another_organisation_finds_nothing,
        a_decision_forgets_the_escalations_and_cancelling_does_not,
        a_grant_holds_for_its_key_alone;
    decide_turn:
        a_turn_is_decided_as_a_whole_and_claimed,
        nothing_happens_unless_all_is_answered,
        a_repeat_names_the_continuation,
        after_a_failed_continuation_nothing_runs_again,
        a_continuation_may_leave_plan_mode;
    lifecycle:
        one_key_gets_the_claim,
        an_execution_is_reported_once,
        what_is_due_expires,
        cancelling_ends_what_is_pending,
        a_deleted_conversation_cancels_and_stays_deleted;
    listing:
        approvals_come_newest_first_page_by_page,
        a_turn_lists_its_own_approvals;
    directory:
        tokens_are_found_by_hash_until_revoked,
        a_version_never_changes,
        a_channel_follows_a_version;
    sweep:
        each_retention_removes_its_own,
        a_begun_request_that_nobody_wants_goes_with_its_reservation;
    instances:
        a_key_makes_one_instance,
        an_instance_changes_under_a_key_of_its_own,
        deleting_an_instance_ends_what_it_may_do,
        what_a_machine_approved_for_an_instance_is_claimed_first,
        an_instances_escalations_count_by_time,
        an_instances_calls_count_by_time;
    notifications:
        whatever_ends_a_request_is_told_once,
        a_deleted_conversations_requests_are_told,
        one_worker_attempts_until_it_is_acknowledged,
        delivery_ends_with_the_receiver_the_instance_or_the_week,
        a_host_has_so_many_places,
        requests_are_kept_as_long_as_the_protocol_says;
    sealing:
        keys_are_in_use_for_what_waits_and_for_secrets,
        a_secret_is_sealed_anew_unless_it_changed_meanwhile;
    watch:
        every_change_wakes_those_who_wait_for_it;
    races:
        one_of_200_deciders_wins,
        decide_cancel_and_expire_have_one_winner,
        one_of_100_claims_is_released,
        one_of_50_equal_requests_is_judged,
        one_of_50_equal_calls_is_judged,
        two_first_definitions_do_not_both_count,
        reservations_add_up,
        a_version_and_a_channel_never_share_a_name,
        deletion_and_recording_leave_nothing_pending,
        an_instances_deletion_leaves_nothing_pending_or_told,
        one_of_20_workers_gets_each_notification,
        calls_that_are_given_up_leave_the_store_usable;
    place:
        it_is_ready,
        errors_quote_no_value,
        text_may_hold_any_character;
}
