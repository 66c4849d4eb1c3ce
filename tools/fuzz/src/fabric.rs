//! Between nodes: what a peer may send, and what may lie in a ring.

use saki_fabric::contract::hostile;
use saki_fabric::wire::{Failure, Goodbye, HEAD_BYTES, Head, Hello, Kind, Open, Opened, Proof, Read, Welcome};
use saki_fabric::wire::{NONCE_BYTES, encode_head};

/// Bytes as they come on a wire: no panic, and whatever they are, the link is down at their end.
pub fn wire(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    hostile::hear(rest, mode & 1 == 1);
    if let Some(head) = rest.first_chunk::<HEAD_BYTES>() {
        let _ = Head::decode(head).map(|head| head.holds(&[]));
    }
}

/// Frames whose heads are right: `mode`, then for each kind, slot, length and body.
pub fn frames(bytes: &[u8]) {
    let Some((mode, mut rest)) = bytes.split_first() else { return };
    let mut sent = Vec::new();
    let mut sequence = 0;
    while let [kind, slot, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(1000).min(after.len());
        let (body, next) = after.split_at(length);
        if let Some(kind) = Kind::from_byte(*kind) {
            let covered = if kind == Kind::Data { &[][..] } else { body };
            sent.extend(encode_head(kind, sequence, u32::from(*slot), length, covered));
            sent.extend(body);
            sequence += 1;
            again(kind, body);
        }
        rest = next;
    }
    hostile::hear(&sent, mode & 1 == 1);
}

/// What is read, written and read again is the same.
fn again(kind: Kind, body: &[u8]) {
    match kind {
        Kind::Hello => same(Hello::decode(body), |hello| Hello::decode(&hello.encode())),
        Kind::Welcome => same(Welcome::decode(body), |welcome| Welcome::decode(&welcome.encode())),
        Kind::Proof => same(Proof::decode(body), |proof| Proof::decode(&proof.encode())),
        Kind::Open => same(Open::decode(body), |open| Open::decode(&open.encode())),
        Kind::Read => same(Read::decode(body), |read| Read::decode(&read.encode())),
        Kind::Failed | Kind::NotOpened => same(Failure::decode(body), |failure| Failure::decode(&failure.encode())),
        Kind::Goodbye => same(Goodbye::decode(body), |goodbye| Goodbye::decode(&goodbye.encode())),
        Kind::Opened => {
            if let Some(opened) = Opened::decode(body) {
                assert_eq!(opened.encode(), body);
            }
        }
        _ => {}
    }
}

fn same<T: PartialEq + std::fmt::Debug>(read: Option<T>, again: impl Fn(&T) -> Option<T>) {
    if let Some(value) = read {
        assert_eq!(again(&value).as_ref(), Some(&value));
    }
}

/// Edits of a ring's memory: no message longer than may be, no panic.
pub fn ring(bytes: &[u8]) {
    hostile::ring(bytes);
}

fn hello() -> Vec<u8> {
    let nonce = [1; NONCE_BYTES];
    Hello { version: 1, transport: 1, node: 2, incarnation: 3, nonce, build: "0.1.0".into() }.encode()
}

pub fn wire_seeds() -> Vec<Vec<u8>> {
    let hello = hello();
    let greeting = [&encode_head(Kind::Hello, 0, 0, hello.len(), &hello)[..], &hello].concat();
    let key = Open { key: hostile::region_key() }.encode();
    let open = [&encode_head(Kind::Open, 0, 0, key.len(), &key)[..], &key].concat();
    vec![[&[0], &greeting[..]].concat(), [&[1], &open[..]].concat()]
}

pub fn frames_seeds() -> Vec<Vec<u8>> {
    let frame = |kind: Kind, slot: u8, body: &[u8]| {
        let length = (body.len() as u16).to_le_bytes();
        [&[kind as u8, slot][..], &length, body].concat()
    };
    let key = Open { key: hostile::region_key() }.encode();
    let read = Read { handle: 0, length: 512, offset: 0 }.encode();
    let opened = Opened { handle: 0, region_bytes: 4096, grant: &[] }.encode();
    let known = |frames: &[Vec<u8>]| [&[1][..], &frames.concat()].concat();
    vec![
        [&[0][..], &frame(Kind::Hello, 0, &hello())].concat(),
        known(&[frame(Kind::Open, 0, &key), frame(Kind::Read, 7, &read)]),
        known(&[frame(Kind::Opened, 0, &opened), frame(Kind::Data, 0, &[5; 512])]),
        known(&[frame(Kind::Opened, 0, &opened), frame(Kind::Failed, 0, &Failure::OutOfRegion.encode())]),
        known(&[frame(Kind::NotOpened, 0, &Failure::UnknownRegion.encode()), frame(Kind::TakenBack, 0, &[])]),
        known(&[frame(Kind::Message, 0, b"text"), frame(Kind::Goodbye, 0, &Goodbye::Done.encode())]),
    ]
}

pub fn ring_seeds() -> Vec<Vec<u8>> {
    // The first length, the first indicator, the head.
    vec![vec![0x00, 0x10, 0xff, 0x00], vec![0x08, 0x10, 1, 2], vec![0, 0, 0xff, 0xff], vec![0x80, 0x10, 7, 7]]
}
