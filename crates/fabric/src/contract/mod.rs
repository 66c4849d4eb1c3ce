//! What every transport promises, as functions that its tests call. A *subject* is a node that does what messages tell
//! it: echo, lend, sleep, start again. The suite is another node that calls it: in another thread, in the same thread
//! (simulated), or on another host. Each function panics with what was broken.

mod cases;
mod client;
mod faults;
pub mod hostile;
mod pattern;
mod subject;

pub use client::World;
pub use pattern::{expect_filled, fill};
pub use subject::Subject;

/// All of the contract.
pub fn run_all(world: &mut dyn World) {
    for (name, case) in CASES {
        println!("  {name}");
        case(world);
    }
}

type Case = fn(&mut dyn World);

/// Each by its name.
pub const CASES: &[(&str, Case)] = &[
    ("messages_of_all_lengths_come_back", cases::messages_of_all_lengths_come_back),
    ("many_messages_keep_their_order", cases::many_messages_keep_their_order),
    ("reads_of_all_lengths_fill_their_buffers", cases::reads_of_all_lengths_fill_their_buffers),
    ("frames_of_an_arena_are_read_into", cases::frames_of_an_arena_are_read_into),
    ("thousands_of_reads_complete_once", cases::thousands_of_reads_complete_once),
    ("messages_and_reads_mix", cases::messages_and_reads_mix),
    ("both_sides_lend", cases::both_sides_lend),
    ("many_links_work_at_once", cases::many_links_work_at_once),
    ("reads_outside_of_a_region_are_refused", cases::reads_outside_of_a_region_are_refused),
    ("a_wrong_key_opens_nothing", cases::a_wrong_key_opens_nothing),
    ("a_region_taken_back_is_gone", cases::a_region_taken_back_is_gone),
    ("a_closed_link_completes_all", cases::a_closed_link_completes_all),
    ("a_wake_ends_a_wait", cases::a_wake_ends_a_wait),
    ("an_idle_link_stays_up", faults::an_idle_link_stays_up),
    ("a_stranger_learns_nothing", faults::a_stranger_learns_nothing),
    ("another_version_is_named", faults::another_version_is_named),
    ("nobody_there_is_an_error_in_time", faults::nobody_there_is_an_error_in_time),
    ("a_silent_peer_is_an_error_in_time", faults::a_silent_peer_is_an_error_in_time),
    ("what_waits_to_be_sent_is_bounded", faults::what_waits_to_be_sent_is_bounded),
    ("a_link_cut_by_the_peer_is_made_again", faults::a_link_cut_by_the_peer_is_made_again),
    ("keys_from_before_a_restart_are_stale", faults::keys_from_before_a_restart_are_stale),
];

/// Tells the subject to end.
pub fn quit(world: &mut dyn World) {
    let mut client = client::Client::new(world);
    client.send(vec![subject::command::QUIT]);
    // Until it has gone: what was sent just before a link ends may be lost.
    client.down();
}
