//! Callers that do not keep to the protocol, through real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use saki_fabric::contract::hostile;
use saki_fabric::wire::{HEAD_BYTES, Kind, MESSAGE_BYTES_MAX, Open, Opened, encode_head};
use saki_fabric::{ClusterKey, Event, FabricError, Port, PortOptions, Tcp};
use saki_io::Wait;

fn port(change: impl FnOnce(&mut PortOptions)) -> (Port, String) {
    let mut options = PortOptions::new(1, ClusterKey::new(&[7; 32]).unwrap());
    change(&mut options);
    let mut port = Port::new(Box::new(Tcp::new().unwrap()), options);
    let address = port.listen("127.0.0.1:0").unwrap();
    (port, address)
}

/// Polls until the caller's connection has ended; gives what it was sent, and why.
fn until_ended(port: &mut Port, caller: &mut TcpStream) -> (Vec<u8>, FabricError) {
    let (mut received, mut why) = (Vec::new(), None);
    caller.set_nonblocking(true).unwrap();
    let started = Instant::now();
    loop {
        let mut events = Vec::new();
        port.poll(Wait::AtMost(Duration::from_millis(5)), &mut events);
        for event in events {
            match event {
                Event::Down { error, again: false, .. } => why = Some(error),
                other => panic!("{other:?}"),
            }
        }
        let mut bytes = [0; 4096];
        match caller.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => received.extend(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        assert!(started.elapsed() < Duration::from_secs(30), "the connection does not end");
    }
    (received, why.expect("the end of a link is told"))
}

#[test]
fn garbage_ends_the_connection() {
    let (mut port, address) = port(|_| {});
    for garbage in [&b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..], &[0xff; 100], &[0; 100]] {
        let mut caller = TcpStream::connect(&address).unwrap();
        caller.write_all(garbage).unwrap();
        let (_, error) = until_ended(&mut port, &mut caller);
        assert!(matches!(error, FabricError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn a_caller_that_says_nothing_is_let_go() {
    let (mut port, address) = port(|options| options.deadline = Duration::from_millis(200));
    let started = Instant::now();
    let (received, error) = until_ended(&mut port, &mut TcpStream::connect(&address).unwrap());
    assert!(received.is_empty() && matches!(error, FabricError::Timeout { .. }), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn nothing_is_opened_before_the_proof() {
    let (arena, _frames) = saki_base::Arena::shared(1, 4096).unwrap();
    let (mut port, address) = port(|_| {});
    let open = Open { key: port.regions().lend(&arena) }.encode();
    let mut caller = TcpStream::connect(&address).unwrap();
    caller.write_all(&[&encode_head(Kind::Open, 0, 0, open.len(), &open)[..], &open].concat()).unwrap();
    let (received, error) = until_ended(&mut port, &mut caller);
    assert!(matches!(error, FabricError::Corrupt { .. }), "{error}");
    assert_eq!(received[4], Kind::Goodbye as u8, "it is told nothing else");
    assert_eq!(received.len(), HEAD_BYTES + 1);
}

#[test]
fn more_callers_than_there_may_be_are_turned_away() {
    let (mut port, address) = port(|options| options.links_most = 2);
    let mut callers: Vec<_> = (0..3).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..20 {
        port.poll(Wait::AtMost(Duration::from_millis(5)), &mut Vec::new());
    }
    let mut farewell = Vec::new();
    callers[2].read_to_end(&mut farewell).unwrap();
    assert_eq!((farewell.len(), farewell[4], farewell[HEAD_BYTES]), (HEAD_BYTES + 1, Kind::Goodbye as u8, 4));
}

#[test]
fn lengths_that_lie_are_refused_before_there_is_memory_for_them() {
    let down = |bytes: &[u8], known: bool| match hostile::hear(bytes, known).pop() {
        Some(Event::Down { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    let mut head = encode_head(Kind::Message, 0, 0, MESSAGE_BYTES_MAX, &[]);
    let error = down(&head, false);
    assert!(matches!(error, FabricError::Corrupt { .. }), "a long message of a stranger: {error}");
    head[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(down(&head, true), FabricError::Corrupt { .. }));
    // Data for a read of 512 bytes that nobody asked for in this slot, or of another length.
    for (slot, length) in [(9, 512), (0, 4096), (u32::MAX, 512)] {
        let head = encode_head(Kind::Data, 0, slot, length, &[]);
        let error = down(&[&head[..], &[0; 4096]].concat(), true);
        assert!(matches!(error, FabricError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn a_frame_that_comes_twice_or_too_early_ends_the_link() {
    let beat = |sequence: u32| encode_head(Kind::Beat, sequence, 0, 0, &[]);
    for frames in [[beat(0), beat(0)], [beat(0), beat(2)], [beat(1), beat(2)]] {
        let events = hostile::hear(&frames.concat(), true);
        let Some(Event::Down { error, .. }) = events.last() else { panic!("{events:?}") };
        assert!(matches!(error, FabricError::Corrupt { .. }), "{error}");
    }
}

/// Data carries no check. Bytes lost in the middle of it are made up for by those of the next frame, and what comes
/// then is no head: the read has ended, with what came, and the link goes down.
#[test]
fn bytes_missing_from_data_end_the_link_at_the_next_frame() {
    let opened = Opened { handle: 0, region_bytes: 4096, grant: &[] }.encode();
    let opened = [&encode_head(Kind::Opened, 0, 0, opened.len(), &opened)[..], &opened].concat();
    let beats: Vec<_> = (2..6).flat_map(|sequence| encode_head(Kind::Beat, sequence, 0, 0, &[])).collect();
    let data = encode_head(Kind::Data, 1, 0, 512, &[]);
    for missing in [0, 1, 20, 40] {
        let events = hostile::hear(&[&opened[..], &data, &vec![7; 512 - missing], &beats].concat(), true);
        let [.., Event::Completed(read), Event::Down { error, .. }] = &events[..] else { panic!("{events:?}") };
        let bytes = read.buffer.as_ref().unwrap();
        assert!(read.result.is_ok() && bytes[..512 - missing].iter().all(|byte| *byte == 7));
        assert_eq!(bytes[512 - missing..], beats[..missing]);
        assert_eq!(matches!(error, FabricError::Corrupt { .. }), missing > 0, "{error}");
    }
}
