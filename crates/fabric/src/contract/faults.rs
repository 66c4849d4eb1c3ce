//! What goes wrong between nodes: an error that says so, in time, and everything under way ends.

use std::time::Duration;

use super::client::{Client, World};
use super::pattern::expect_filled;
use super::subject::command;
use crate::error::FabricError;
use crate::options::PortOptions;
use crate::secret::ClusterKey;

/// Short, so that waiting for it is, and long for what a slow machine does meanwhile.
const DEADLINE: Duration = Duration::from_millis(1500);
const HEARTBEAT: Duration = Duration::from_millis(300);

fn hasty(world: &dyn World) -> PortOptions {
    PortOptions { deadline: DEADLINE, heartbeat: HEARTBEAT, ..world.options() }
}

/// Signs of life keep it, with nothing else to say.
pub fn an_idle_link_stays_up(world: &mut dyn World) {
    let options = hasty(world);
    let mut client = Client::with(world, options);
    client.up();
    let until = client.clock.now() + 2 * DEADLINE;
    while client.clock.now() < until {
        client.turn();
    }
    client.echo(b"still there");
}

/// Another key: no side gets so far as to open anything, and no region is read.
pub fn a_stranger_learns_nothing(world: &mut dyn World) {
    let key = Client::new(world).lend(41, 2, 4096);
    let mut options = world.options();
    options.key = ClusterKey::new(&[0x5a; 32]).unwrap();
    let mut client = Client::with(world, options);
    let token = client.read(&key, 0, 4096);
    let error = client.completion(token).result.expect_err("a stranger reads a region");
    assert!(matches!(*error, FabricError::Unauthenticated { .. }), "{error}");
    let (error, again) = client.down();
    assert!(matches!(error, FabricError::Unauthenticated { .. }) && !again, "{error}");
    drop(client);
    Client::new(world).echo(b"and nobody else notices");
}

/// Both versions are in the error, and it is not tried again.
pub fn another_version_is_named(world: &mut dyn World) {
    let mut options = world.options();
    options.version += 1;
    let ours = options.version;
    let (error, again) = Client::with(world, options).down();
    let named = matches!(error, FabricError::Version { ours: o, theirs, .. } if o == ours && theirs == ours - 1);
    assert!(named && !again, "{error}");
}

/// Operations wait for a connection until their deadline.
pub fn nobody_there_is_an_error_in_time(world: &mut dyn World) {
    let (options, nowhere) = (hasty(world), world.nowhere());
    let mut client = Client::calling(world, options, &nowhere);
    let (started, token) = (client.clock.now(), client.send(b"hello?".to_vec()));
    let error = client.completion(token).result.expect_err("nobody is there");
    assert!(matches!(*error, FabricError::Unreachable { .. }), "{error}");
    let took = client.clock.now() - started;
    assert!(took >= DEADLINE && took < 3 * DEADLINE, "it took {took:?}");
    let (error, again) = client.down();
    assert!(again, "it is tried again: {error}");
}

/// It sleeps longer than it may: the link goes down in time, with all that is under way, and is made again.
pub fn a_silent_peer_is_an_error_in_time(world: &mut dyn World) {
    let options = hasty(world);
    let mut client = Client::with(world, options);
    client.up();
    let sleep = 2 * DEADLINE + DEADLINE / 2;
    let nap = (sleep.as_millis() as u64).to_le_bytes();
    let token = client.send([&[command::SLEEP][..], &nap].concat());
    client.completion(token).result.unwrap();
    let started = client.clock.now();
    let asked = client.send(vec![command::ECHO]);
    let (error, again) = client.down();
    assert!(matches!(error, FabricError::Timeout { .. }) && again, "{error}");
    let took = client.clock.now() - started;
    assert!(took >= DEADLINE / 2 && took < 2 * DEADLINE, "it took {took:?}");
    // It was on its way, or it ended with the link.
    let _ = client.completion(asked);
    assert_eq!(client.port.in_flight(), 0);
    client.up();
    client.echo(b"awake again");
}

/// A peer that does not take messages: some wait, and no more than may.
pub fn what_waits_to_be_sent_is_bounded(world: &mut dyn World) {
    const COUNT: usize = 400;
    let options = hasty(world);
    let mut client = Client::with(world, options);
    client.up();
    let nap = (2 * DEADLINE.as_millis() as u64).to_le_bytes();
    let token = client.send([&[command::SLEEP][..], &nap].concat());
    client.completion(token).result.unwrap();
    for _ in 0..COUNT {
        client.send(vec![command::ECHO; 200_000]);
    }
    let completions = client.completions(COUNT);
    let busy = |error: &FabricError| matches!(error, FabricError::Busy { .. });
    let refused = completions.iter().filter(|completion| completion.result.as_ref().is_err_and(|error| busy(error)));
    assert!(refused.count() > COUNT / 2, "80 MB waited to be sent");
    client.up();
    client.echo(b"taken again");
}

/// With the same peer, which is told by its incarnation.
pub fn a_link_cut_by_the_peer_is_made_again(world: &mut dyn World) {
    let options = world.options();
    let mut client = Client::with(world, options);
    let before = client.up();
    let key = client.lend(43, 2, 4096);
    client.send(vec![command::CLOSE]);
    let (error, again) = client.down();
    assert!(matches!(error, FabricError::Disconnected { .. }) && again, "{error}");
    let after = client.up();
    assert_eq!((before.node, before.incarnation), (after.node, after.incarnation));
    expect_filled(&client.try_read(&key, 0, 4096).expect("what it lends is still there"), 43, 0);
}

/// The peer starts again: the link is made again with another incarnation, and old keys open nothing.
pub fn keys_from_before_a_restart_are_stale(world: &mut dyn World) {
    let options = world.options();
    let mut client = Client::with(world, options);
    let before = client.up();
    let key = client.lend(47, 2, 4096);
    expect_filled(&client.try_read(&key, 0, 4096).unwrap(), 47, 0);
    client.send(vec![command::RESTART]);
    let (error, again) = client.down();
    assert!(again, "{error}");
    let after = client.up();
    assert_ne!(before.incarnation, after.incarnation, "a restart shows");
    let error = client.try_read(&key, 0, 4096).expect_err("the region is gone");
    assert!(matches!(error, FabricError::UnknownRegion { .. }), "{error}");
    let key = client.lend(53, 2, 4096);
    expect_filled(&client.try_read(&key, 0, 4096).unwrap(), 53, 0);
}
