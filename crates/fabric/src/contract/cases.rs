//! What works when nothing goes wrong, and how what is asked wrongly is refused.

use std::time::Duration;

use saki_base::{Arena, Buffer};
use saki_io::Wait;

use super::client::{Client, World};
use super::pattern::{expect_filled, fill};
use super::subject::command;
use crate::error::FabricError;
use crate::event::Event;
use crate::region::RegionKey;
use crate::wire::{MESSAGE_BYTES_MAX, READ_BYTES_MAX};

const FRAME_BYTES: u32 = 16 << 10;

/// From none at all to the longest; one byte more is refused.
pub fn messages_of_all_lengths_come_back(world: &mut dyn World) {
    let mut client = Client::new(world);
    for length in [0, 1, 7, 8, 9, 100, 4096, 65_536, MESSAGE_BYTES_MAX - 1] {
        let mut text = vec![0; length];
        fill(&mut text, length as u64, 0);
        client.echo(&text);
    }
    let token = client.send(vec![0; MESSAGE_BYTES_MAX + 1]);
    let error = client.completion(token).result.unwrap_err();
    assert!(matches!(*error, FabricError::TooLarge { .. }), "{error}");
    client.echo(b"and the link is as it was");
}

/// More than any ring or buffer holds; none is lost, and none comes before another.
pub fn many_messages_keep_their_order(world: &mut dyn World) {
    const COUNT: u64 = 4000;
    let mut client = Client::new(world);
    for number in 0..COUNT {
        let length = 8 + (number * 37 % 900) as usize;
        let mut message = vec![command::ECHO; 1 + length];
        message[1..9].copy_from_slice(&number.to_le_bytes());
        client.send(message);
    }
    for completion in client.completions(COUNT as usize) {
        completion.result.unwrap();
    }
    for number in 0..COUNT {
        let answer = client.message();
        assert_eq!(answer.len(), 8 + (number * 37 % 900) as usize);
        assert_eq!(answer[..8], number.to_le_bytes(), "messages changed places");
    }
    assert_eq!(client.port.in_flight(), 0);
}

/// From 512 bytes to the longest, at any offset.
pub fn reads_of_all_lengths_fill_their_buffers(world: &mut dyn World) {
    let mut client = Client::new(world);
    let key = client.lend(7, 160, FRAME_BYTES);
    for length in [512, 1024, 4096, 12_288, 65_536, 262_144, READ_BYTES_MAX] {
        for offset in [0, 8, 4096, u64::from(FRAME_BYTES) * 160 - length as u64] {
            let buffer = client.try_read(&key, offset, length).unwrap();
            expect_filled(&buffer, 7, offset);
        }
    }
}

/// A registered arena's frames, and those of another arena, come back as the frames they were, filled.
pub fn frames_of_an_arena_are_read_into(world: &mut dyn World) {
    const FRAMES: u32 = 32;
    let (arena, frames) = Arena::new(FRAMES, FRAME_BYTES as usize).unwrap();
    let (_, others) = Arena::new(FRAMES, FRAME_BYTES as usize).unwrap();
    let mut options = world.options();
    options.arena = Some(arena);
    let mut client = Client::with(world, options);
    client.up();
    let key = client.lend(9, FRAMES, FRAME_BYTES);
    for frame in frames.into_iter().chain(others) {
        let token = client.token();
        let offset = u64::from(frame.index()) * u64::from(FRAME_BYTES);
        client.port.read(client.link, token, &key, offset, Buffer::Frame(frame));
    }
    for completion in client.completions(2 * FRAMES as usize) {
        completion.result.unwrap();
        let Some(Buffer::Frame(frame)) = completion.buffer else { panic!("a frame came back as something else") };
        expect_filled(&frame, 9, u64::from(frame.index()) * u64::from(FRAME_BYTES));
    }
}

/// More than can be under way at once.
pub fn thousands_of_reads_complete_once(world: &mut dyn World) {
    const COUNT: u64 = 3000;
    let mut client = Client::new(world);
    let key = client.lend(11, 64, FRAME_BYTES);
    let pages = 64 * u64::from(FRAME_BYTES) / 4096;
    let offset_of = |token: u64| token * 7919 % pages * 4096;
    let first = client.token() + 1;
    for token in first..first + COUNT {
        assert_eq!(client.read(&key, offset_of(token), 4096), token);
    }
    assert_eq!(client.port.in_flight(), COUNT as usize);
    for completion in client.completions(COUNT as usize) {
        completion.result.unwrap();
        expect_filled(completion.buffer.as_ref().unwrap(), 11, offset_of(completion.token));
    }
    assert_eq!(client.port.in_flight(), 0);
}

/// Reads and messages of one link do not disturb each other.
pub fn messages_and_reads_mix(world: &mut dyn World) {
    let mut client = Client::new(world);
    let key = client.lend(13, 8, FRAME_BYTES);
    for round in 0..200_u64 {
        let mut text = vec![command::ECHO; 1 + round as usize * 11];
        fill(&mut text[1..], round, 0);
        client.send(text);
        client.read(&key, round % 32 * 4096, 4096);
    }
    for completion in client.completions(400) {
        completion.result.unwrap();
    }
    for round in 0..200_u64 {
        let answer = client.message();
        assert_eq!(answer.len(), round as usize * 11);
        expect_filled(&answer, round, 0);
    }
}

/// The side that was called reads from the one that has called.
pub fn both_sides_lend(world: &mut dyn World) {
    let mut client = Client::new(world);
    let (arena, frames) = Arena::shared(4, FRAME_BYTES as usize).unwrap();
    let mut expected = Vec::new();
    for mut frame in frames {
        let offset = u64::from(frame.index()) * u64::from(FRAME_BYTES);
        fill(&mut frame, 17, offset);
        expected.extend_from_slice(&frame);
    }
    let key = client.port.regions().lend(&arena);
    for (offset, length) in [(0, 4096), (4096, 8192), (u64::from(FRAME_BYTES) * 3, 16_384)] {
        let numbers = [offset, length as u64].map(u64::to_le_bytes).concat();
        let answer = client.ask([&[command::READ][..], &key.to_bytes(), &numbers].concat());
        let bytes = &expected[offset as usize..offset as usize + length];
        assert_eq!(answer, saki_base::checksum(bytes).to_le_bytes());
    }
}

/// Peers of one port, each with its own messages.
pub fn many_links_work_at_once(world: &mut dyn World) {
    let address = world.address();
    let mut client = Client::new(world);
    let links: Vec<_> = (0..16).map(|_| client.port.connect(&address)).collect();
    for (number, link) in links.iter().enumerate() {
        client.port.send(*link, 1000 + number as u64, vec![command::ECHO, number as u8]);
    }
    for (number, link) in links.iter().enumerate() {
        let answer = client.until("an answer", |event| match event {
            Event::Message { link: from, bytes } if from == link => Some(bytes.clone()),
            _ => None,
        });
        assert_eq!(answer, [number as u8]);
    }
    client.echo(b"the first one too");
}

/// At and across the end, at the end of all numbers, nothing, and too much.
pub fn reads_outside_of_a_region_are_refused(world: &mut dyn World) {
    let mut client = Client::new(world);
    let key = client.lend(19, 2, FRAME_BYTES);
    let end = 2 * u64::from(FRAME_BYTES);
    for offset in [end, end - 512, u64::MAX - 511, u64::MAX, 1 << 62] {
        let error = client.try_read(&key, offset, 1024).expect_err("it is outside");
        assert!(matches!(error, FabricError::OutOfRegion { .. }), "at {offset}: {error}");
    }
    let error = client.try_read(&key, 0, READ_BYTES_MAX + 512).expect_err("it is too much");
    assert!(matches!(error, FabricError::TooLarge { .. }), "{error}");
    expect_filled(&client.try_read(&key, end - 1024, 1024).unwrap(), 19, end - 1024);
}

/// A secret that is wrong, a number that is wrong; the link stays.
pub fn a_wrong_key_opens_nothing(world: &mut dyn World) {
    let mut client = Client::new(world);
    let key = client.lend(23, 2, FRAME_BYTES);
    let wrong = [
        RegionKey { secret: key.secret ^ 1, ..key },
        RegionKey { number: key.number + 1, ..key },
        RegionKey { number: 1 << 40, secret: 0 },
    ];
    for wrong in wrong {
        let tokens: Vec<_> = (0..3).map(|_| client.read(&wrong, 0, 4096)).collect();
        for token in tokens {
            let error = client.completion(token).result.expect_err("it opens nothing");
            assert!(matches!(*error, FabricError::UnknownRegion { .. }), "{error}");
        }
    }
    expect_filled(&client.try_read(&key, 0, 4096).unwrap(), 23, 0);
}

/// Afterwards its key is as good as a wrong one, and other regions stay.
pub fn a_region_taken_back_is_gone(world: &mut dyn World) {
    let mut client = Client::new(world);
    let (key, other) = (client.lend(29, 2, FRAME_BYTES), client.lend(31, 2, FRAME_BYTES));
    expect_filled(&client.try_read(&key, 0, 4096).unwrap(), 29, 0);
    expect_filled(&client.try_read(&other, 0, 4096).unwrap(), 31, 0);
    client.ask([&[command::TAKE_BACK][..], &key.to_bytes()].concat());
    let started = client.clock.now();
    let error = loop {
        // What is under way when the word comes may still succeed.
        if let Err(error) = client.try_read(&key, 0, 4096) {
            break error;
        }
        assert!(client.clock.now() < started + Duration::from_secs(10), "a region taken back is read");
        client.turn();
    };
    let passes = matches!(error, FabricError::UnknownRegion { .. } | FabricError::Disconnected { .. });
    assert!(passes, "{error}");
    // A device that refuses what a region's owner took back may end the connection; it is made again.
    let read = (0..10).find_map(|_| client.try_read(&other, 0, 4096).ok());
    expect_filled(&read.expect("another region is read"), 31, 0);
    let error = client.try_read(&key, 0, 4096).expect_err("it is gone");
    assert!(matches!(error, FabricError::UnknownRegion { .. }), "{error}");
}

/// Whatever is under way or comes after ends with an error, and gives its buffer back.
pub fn a_closed_link_completes_all(world: &mut dyn World) {
    let mut client = Client::new(world);
    let key = client.lend(37, 2, FRAME_BYTES);
    for _ in 0..20 {
        client.send(vec![command::ECHO]);
        client.read(&key, 0, 4096);
    }
    client.port.close(client.link);
    client.read(&key, 0, 4096);
    client.send(vec![command::ECHO]);
    for completion in client.completions(42) {
        let error = completion.result.expect_err("the link is closed");
        assert!(matches!(*error, FabricError::Closed { .. }), "{error}");
    }
    let (error, again) = client.down();
    assert!(matches!(error, FabricError::Closed { .. }) && !again, "{error}");
    assert_eq!(client.port.in_flight(), 0);
}

/// A wake, before the wait or in it, ends it.
pub fn a_wake_ends_a_wait(world: &mut dyn World) {
    let mut client = Client::new(world);
    let waker = client.port.waker();
    for delay in [0, 30] {
        let waker = std::sync::Arc::clone(&waker);
        let woken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&woken);
        let wakes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(delay));
            flag.store(true, std::sync::atomic::Ordering::SeqCst);
            waker.wake();
        });
        if delay == 0 {
            wakes.join().unwrap();
            client.port.poll(Wait::AtMost(Duration::from_secs(50)), &mut Vec::new());
        } else {
            client.port.poll(Wait::AtMost(Duration::from_secs(50)), &mut Vec::new());
            wakes.join().unwrap();
        }
        assert!(woken.load(std::sync::atomic::Ordering::SeqCst));
    }
}
