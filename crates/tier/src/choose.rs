//! Which copies are made and which go, by what a policy says of each chunk.

use saki_base::ChunkId;

use crate::book::{Book, Chunk, Wish};
use crate::policy::Policy;

/// What is to be moved next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// To be copied, in this order.
    pub promote: Vec<ChunkId>,
    /// Whose copies go first.
    pub evict: Vec<ChunkId>,
}

/// Chooses at most `moves_max` copies to be made. `free`: slots that are to be had without anything going.
pub fn choose(book: &Book, policy: &dyn Policy, free: u64, moves_max: usize) -> Choice {
    let wanted = book.chunks().filter(|(_, chunk)| chunk.copy.is_none() && chunk.live_pages > 0);
    let wanted = wanted.filter_map(|(number, chunk)| Some((wants(policy, chunk)?, number, chunk)));
    let mut wanted: Vec<_> = wanted.collect();
    // The best first; of equal ones in the order of chunks, as neighbours lie together.
    wanted.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut choice = Choice::default();
    let copied = || book.chunks().filter(|(_, chunk)| chunk.copy.is_some());
    choice.evict.extend(copied().filter(|(_, chunk)| chunk.wish == Some(Wish::Slow)).map(|(number, _)| number));
    if wanted.len() as u64 <= free {
        choice.promote = wanted.into_iter().map(|(_, number, _)| number).take(moves_max).collect();
        return choice;
    }
    let stays = copied().filter(|(_, chunk)| chunk.wish != Some(Wish::Slow));
    let mut copied: Vec<_> = stays.map(|(number, chunk)| (keeps(policy, chunk), number, chunk)).collect();
    copied.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut copied = copied.into_iter().peekable();
    for (_, number, chunk) in wanted {
        if choice.promote.len() == moves_max {
            break;
        }
        if choice.promote.len() as u64 >= free {
            match copied.next_if(|(_, _, goes)| replaces(policy, chunk, goes)) {
                Some((_, goes, _)) => choice.evict.push(goes),
                // Another may be wanted for another reason.
                None => continue,
            }
        }
        choice.promote.push(number);
    }
    choice
}

/// What a copy is worth, as its owner wishes or else the policy says.
fn wants(policy: &dyn Policy, chunk: &Chunk) -> Option<f64> {
    match chunk.wish {
        Some(Wish::Fast) => Some(f64::MAX),
        Some(Wish::Slow) => None,
        None => policy.wants(chunk),
    }
}

fn keeps(policy: &dyn Policy, chunk: &Chunk) -> f64 {
    if chunk.wish == Some(Wish::Fast) { f64::INFINITY } else { policy.keeps(chunk) }
}

fn replaces(policy: &dyn Policy, wanted: &Chunk, copied: &Chunk) -> bool {
    match (wanted.wish, copied.wish) {
        (_, Some(Wish::Fast)) => false,
        (Some(Wish::Fast), _) => true,
        _ => policy.replaces(wanted, copied),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use saki_base::DeviceId;

    use super::*;
    use crate::book::Chunk;
    use crate::policy::{PolicyKind, policy_of};

    const FAST: Option<DeviceId> = Some(DeviceId(1));

    /// Chunks by number, each with its copy and its heat.
    fn book(chunks: &[(Option<DeviceId>, f64)]) -> Book {
        let mut book = Book::default();
        for (number, (copy, heat)) in chunks.iter().enumerate() {
            let mut chunk = Chunk::at(DeviceId(0), *copy);
            (chunk.earned.heat, chunk.earned.traced) = (*heat, *heat);
            chunk.read_at = Some(Duration::from_secs_f64(*heat));
            chunk.is_read = copy.is_none();
            book.put(ChunkId(number as u64), chunk);
        }
        book
    }

    fn chosen(book: &Book, kind: PolicyKind, free: u64) -> (Vec<u64>, Vec<u64>) {
        let choice = choose(book, &*policy_of(kind), free, 8);
        let numbers = |chunks: Vec<ChunkId>| chunks.into_iter().map(|chunk| chunk.0).collect();
        (numbers(choice.promote), numbers(choice.evict))
    }

    #[test]
    fn the_hottest_come_first_and_the_coldest_go() {
        let book = book(&[(None, 5.0), (None, 9.0), (FAST, 1.0), (FAST, 4.0), (None, 0.5)]);
        assert_eq!(chosen(&book, PolicyKind::Heat, 4), (vec![1, 0], vec![]), "the last is not worth its copying");
        assert_eq!(chosen(&book, PolicyKind::Heat, 1), (vec![1, 0], vec![2]));
        assert_eq!(chosen(&book, PolicyKind::Heat, 0), (vec![1], vec![2]), "5 is not that much more than 4");
        assert_eq!(chosen(&book, PolicyKind::None, 4), (vec![], vec![]));
        assert_eq!(chosen(&book, PolicyKind::Static, 0), (vec![1, 0], vec![2, 3]));
        assert_eq!(chosen(&book, PolicyKind::Static, 9), (vec![1, 0, 4], vec![]));
    }

    #[test]
    fn what_is_read_goes_before_what_was_read_longer_ago() {
        let mut book = book(&[(None, 7.0), (FAST, 3.0), (FAST, 2.0), (None, 1.0)]);
        assert_eq!(chosen(&book, PolicyKind::Lru, 0), (vec![0], vec![2]), "the last was read before all others");
        let mut idle = Chunk::at(DeviceId(0), None);
        idle.read_at = Some(Duration::from_secs(9));
        book.put(ChunkId(4), idle);
        assert_eq!(chosen(&book, PolicyKind::Lru, 0), (vec![0], vec![2]), "it was not read since");
    }

    #[test]
    fn what_a_statement_has_yet_to_read_keeps_its_copy() {
        let mut book = book(&[(None, 9.0), (FAST, 1.0), (FAST, 2.0)]);
        let mut coming = Chunk::at(DeviceId(0), FAST);
        coming.coming = 1e-6;
        book.put(ChunkId(1), coming.clone());
        assert_eq!(chosen(&book, PolicyKind::Plan, 0), (vec![0], vec![2]));
        assert_eq!(chosen(&book, PolicyKind::Heat, 0), (vec![0], vec![1]), "other policies know no plans");
        book.put(ChunkId(2), coming);
        assert_eq!(chosen(&book, PolicyKind::Plan, 0), (vec![], vec![]));
    }

    #[test]
    fn what_a_statement_is_about_to_read_finds_a_place_among_what_is_hot() {
        let mut book = book(&[(None, 60.0), (FAST, 50.0)]);
        let mut coming = Chunk::at(DeviceId(0), None);
        coming.coming = 2.5;
        book.put(ChunkId(2), coming);
        assert_eq!(chosen(&book, PolicyKind::Plan, 0), (vec![2], vec![1]), "60 is not that much more than 50");
        assert_eq!(chosen(&book, PolicyKind::Plan, 1), (vec![0, 2], vec![1]));
        assert_eq!(chosen(&book, PolicyKind::Heat, 0), (vec![], vec![]));
    }

    #[test]
    fn what_its_owner_wishes_comes_before_what_the_policy_says() {
        let mut book = book(&[(None, 9.0), (FAST, 1.0), (None, 0.0), (None, 99.0), (FAST, 5.0)]);
        for (number, copy, wish) in
            [(2, None, Wish::Fast), (1, FAST, Wish::Fast), (3, None, Wish::Slow), (4, FAST, Wish::Slow)]
        {
            let mut chunk = Chunk::at(DeviceId(0), copy);
            (chunk.wish, chunk.earned.heat) = (Some(wish), 50.0);
            book.put(ChunkId(number), chunk);
        }
        assert_eq!(chosen(&book, PolicyKind::Heat, 2), (vec![2, 0], vec![4]));
        assert_eq!(chosen(&book, PolicyKind::Heat, 1), (vec![2], vec![4]), "one that its owner wants stays");
    }

    #[test]
    fn moves_are_few_at_a_time() {
        let book = book(&[(None, 9.0); 100]);
        let choice = choose(&book, &*policy_of(PolicyKind::Heat), 1000, 8);
        assert_eq!(choice.promote, (0..8).map(ChunkId).collect::<Vec<_>>());
    }
}
