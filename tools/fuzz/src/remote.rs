//! Another node's pages: what readers and owners may say to each other.

use saki_base::PageAddress;
use saki_fabric::RegionKey;
use saki_remote::wire::{
    AnswerBatch, Ask, ENTRIES_MOST, Outcome, TEXT_BYTES_MOST, ToOwner, ToReader, VERSION, Welcome, encode_asks,
    encode_enter, encode_refused,
};

/// A message for an owner, and for a reader: what is heard has these bytes and no others, and is within its bounds.
pub fn message(bytes: &[u8]) {
    match ToOwner::decode(bytes) {
        Some(ToOwner::Enter { version }) => assert_eq!(encode_enter(version), bytes),
        Some(ToOwner::Ask(asks)) => {
            let (freed, asked): (Vec<_>, Vec<_>) = (asks.freed().collect(), asks.asked().collect());
            assert!(freed.len() <= ENTRIES_MOST && asked.len() <= ENTRIES_MOST);
            assert_eq!(encode_asks(&freed, asked.into_iter()), bytes);
        }
        None => {}
    }
    match ToReader::decode(bytes) {
        Some(ToReader::Welcome(welcome)) => assert_eq!(welcome.encode(), bytes),
        Some(ToReader::Answer(answers)) => {
            let mut again = AnswerBatch::default();
            let mut count = 0;
            for (id, outcome) in answers.iter() {
                assert!(!matches!(outcome, Outcome::Unreadable(text) if text.len() > TEXT_BYTES_MOST));
                again.push(id, &outcome);
                count += 1;
            }
            assert!(count <= ENTRIES_MOST);
            assert_eq!(again.take(), bytes);
        }
        Some(ToReader::Refused { version: VERSION, why }) => assert_eq!(encode_refused(why), bytes),
        Some(ToReader::Refused { why, .. }) => assert!(why.len() <= TEXT_BYTES_MOST),
        None => {}
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let ask = |id: u32| Ask { id, from_home: id == 2, address: PageAddress(u64::from(id) << 33) };
    let mut answers = AnswerBatch::default();
    answers.push(1, &Outcome::Page { frame: 7 });
    answers.push(2, &Outcome::Unmapped);
    answers.push(3, &Outcome::Unreadable("the device is on fire"));
    answers.push(4, &Outcome::Unreadable("and this one is wet"));
    vec![
        encode_enter(VERSION),
        encode_asks(&[3, 4], (1..4).map(ask).collect::<Vec<_>>().into_iter()),
        Welcome { page_bytes: 4096, requests_most: 512, region: RegionKey { number: 1, secret: 2 } }.encode(),
        answers.take(),
        encode_refused("no more readers"),
    ]
}
