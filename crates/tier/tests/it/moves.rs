//! One promise each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{Clock, SystemClock};
use saki_tier::{PolicyKind, Reads, Tier, Use};

use crate::bench::{Bench, FAST, FULL, leaves, settle};

#[test]
fn what_is_hot_is_copied_and_gives_way_to_what_is_hotter() {
    let bench = Bench::new(2);
    let pages = bench.publish(leaves(1), 4 * FULL, &[]);
    let chunks = bench.chunks_of(&pages);
    let [first, second, third, _] = [0, 1, 2, 3].map(|at| &pages[at * FULL as usize..(at + 1) * FULL as usize]);
    let tier = bench.tier(PolicyKind::Heat);
    bench.read(&first[..10], 1);
    settle(&tier);
    assert_eq!(bench.copies(), [], "ten reads take less time than a copy");
    bench.read(first, 3);
    bench.read(second, 2);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..2]);
    bench.read(third, 2);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..2], "no hotter than the second");
    bench.read(third, 3);
    settle(&tier);
    assert_eq!(bench.copies(), [chunks[0], chunks[2]]);
    assert_eq!((tier.stats().promoted, tier.stats().evicted, tier.stats().failures), (3, 1, 0));
    // What has cooled down goes for what is less hot than it once was.
    bench.pass(3600);
    bench.read(second, 2);
    settle(&tier);
    assert!(bench.copies().contains(&chunks[1]));
    bench.volume.check_devices(|fault| panic!("{fault}")).expect("checked");
}

#[test]
fn what_a_statement_has_yet_to_read_stays() {
    let bench = Bench::new(1);
    let pages = bench.publish(leaves(1), 2 * FULL, &[]);
    let chunks = bench.chunks_of(&pages);
    let (first, second) = pages.split_at(FULL as usize);
    let tier = bench.tier(PolicyKind::Plan);
    bench.read(first, 2);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..1]);
    let running = [(); 2].map(|()| tier.expect(&[Use::Chunk(chunks[0], Reads::of_pages(FULL as f64))]));
    bench.pass(3600);
    bench.read(second, 5);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..1], "much hotter, and has to wait");
    let [one, other] = running;
    drop(one);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..1], "the other one needs it still");
    bench.read(first, 1);
    bench.pass(3600);
    bench.read(second, 5);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[1..], "it has read it");
    drop(other);
}

#[test]
fn parts_are_as_fast_as_the_devices_they_are_read_from() {
    let bench = Bench::new(8);
    let [half, slow] = [1, 2].map(|tree| bench.publish(leaves(tree), 2 * FULL, &[]));
    let tier = bench.tier(PolicyKind::None);
    let home = tier.speed().expect("a device").reads_per_second;
    // How many times as fast as the home, in thousandths.
    let rate = |parts: &[saki_base::Part]| {
        tier.speed_of(parts).map(|speed| (speed.reads_per_second / home * 1000.0).round() as u32)
    };
    assert_eq!(rate(&[leaves(1)]), Some(1000));
    assert_eq!(rate(&[leaves(9)]), None);
    let chunks = bench.chunks_of(&half);
    bench.volume.promote(&chunks[..1], FAST).expect("copied");
    assert_eq!(rate(&[leaves(1)]), Some(2000), "the home has half of it to read");
    assert_eq!(rate(&[leaves(2)]), Some(1000));
    assert_eq!(rate(&[leaves(1), leaves(2)]), Some(1333));
    bench.volume.promote(&chunks, FAST).expect("copied");
    assert_eq!(rate(&[leaves(1)]), Some(10_000));
    bench.volume.evict(&chunks);
    assert_eq!(rate(&[leaves(1)]), Some(1000));
    // What is written anew lies where it was written.
    let written = bench.publish(leaves(2), 2 * FULL, &slow);
    bench.volume.promote(&bench.chunks_of(&written), FAST).expect("copied");
    assert_eq!(rate(&[leaves(2)]), Some(10_000));
}

#[test]
fn a_static_placement_goes_by_what_was_read_before() {
    let bench = Bench::new(1);
    let pages = bench.publish(leaves(1), 2 * FULL, &[]);
    let chunks = bench.chunks_of(&pages);
    let (first, second) = pages.split_at(FULL as usize);
    let tier = bench.tier(PolicyKind::None);
    bench.read(first, 1);
    settle(&tier);
    bench.read(second, 2);
    settle(&tier);
    assert_eq!(bench.copies(), [], "nothing moves by itself");
    tier.set_policy(PolicyKind::Static);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[1..]);
    bench.read(first, 9);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[1..], "what is read later does not count");
    tier.set_policy(PolicyKind::Static);
    settle(&tier);
    assert_eq!(bench.copies(), chunks[..1], "until it is asked for again");
}

#[test]
fn heat_outlives_a_merge() {
    let bench = Bench::new(4);
    let pages = bench.publish(leaves(1), 2 * FULL, &[]);
    let others = bench.publish(leaves(2), 2 * FULL, &[]);
    let tier = bench.tier(PolicyKind::Heat);
    tier.step();
    bench.read(&pages, 4);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&pages));
    let before: f64 = tier.heats().values().sum();
    // All of it is written anew, as is what nobody has read.
    let written = bench.publish(leaves(1), 2 * FULL, &pages);
    let cold = bench.publish(leaves(2), 2 * FULL, &others);
    settle(&tier);
    let heats = tier.heats();
    let of = |chunks: Vec<saki_base::ChunkId>| chunks.iter().map(|chunk| heats[chunk]).sum::<f64>();
    assert!((of(bench.chunks_of(&written)) - before).abs() < 1e-9 * before);
    assert_eq!(of(bench.chunks_of(&cold)), 0.0);
    assert_eq!(bench.copies(), bench.chunks_of(&written), "they are copied before anybody has read them");
}

#[test]
fn a_fast_device_that_fails_costs_nothing_but_its_copies() {
    let bench = Bench::new(4);
    let pages = bench.publish(leaves(1), 2 * FULL, &[]);
    let tier = bench.tier(PolicyKind::Lru);
    bench.fast.faults().fail_range(0..u64::MAX);
    tier.step();
    bench.read(&pages, 1);
    assert!(!tier.step());
    assert_eq!((bench.copies().len(), tier.stats().failures), (0, 1));
    bench.fast.faults().heal();
    bench.read(&pages, 1);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&pages));
    // Whoever takes the device away has it: nothing is moved there any more.
    bench.volume.remove_device(FAST).expect("copies only");
    tier.devices_changed();
    bench.read(&pages, 1);
    settle(&tier);
    assert_eq!(bench.copies(), []);
}

#[test]
fn the_thread_moves_by_itself_and_ends() {
    let bench = Bench::new(4);
    let pages = bench.publish(leaves(1), 2 * FULL, &[]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let tier = Tier::new(Arc::clone(&bench.volume), PolicyKind::None, clock, None);
    tier.start().expect("a thread");
    bench.read(&pages, 2);
    tier.set_policy(PolicyKind::Static);
    let began = Instant::now();
    while bench.copies().len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing moves");
        std::thread::sleep(Duration::from_millis(5));
    }
    tier.stop();
    bench.volume.evict(&bench.copies());
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(bench.copies(), [], "it has ended");
}

#[test]
fn what_a_statement_will_read_is_copied_before_it_does() {
    let bench = Bench::new(2);
    let [first, second] = [1, 2].map(|tree| bench.publish(leaves(tree), 2 * FULL, &[]));
    let tier = bench.tier(PolicyKind::Plan);
    // Announced before anything has been looked at.
    let early = tier.expect(&[Use::Whole(leaves(1)), Use::Part(leaves(1), 1e9)]);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&first));
    drop(early);
    bench.volume.evict(&bench.copies());
    tier.devices_changed();
    settle(&tier);
    assert_eq!(bench.copies(), [], "nobody reads anything");
    let once = tier.assess(&[Use::Whole(leaves(1))]);
    assert_eq!((once.chunks, once.to_move), (2, 0), "a copy takes as long as reading on");
    let all = [Use::Part(leaves(1), 1e9)];
    let assessment = tier.assess(&all);
    assert_eq!((assessment.chunks, assessment.copied, assessment.to_move), (2, 0, 2));
    assert!(assessment.seconds_saved > 0.0 && (assessment.pages - 256.0).abs() < 1e-9, "{assessment:?}");
    let running = tier.expect(&all);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&first), "and nothing has been read");
    assert_eq!(tier.assess(&all), saki_tier::Assessment { copied: 2, to_move: 0, seconds_saved: 0.0, ..assessment });
    // Another one comes, and has to wait for the fast device: the first has not read anything yet.
    let others: Vec<Use> =
        bench.chunks_of(&second).into_iter().map(|chunk| Use::Chunk(chunk, Reads::of_pages(1e4))).collect();
    let other = tier.expect(&others);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&first), "the first statement needs them");
    drop(running);
    settle(&tier);
    assert_eq!(bench.copies(), bench.chunks_of(&second));
    drop(other);
}

#[test]
fn what_has_been_read_already_is_not_copied_for_its_statement() {
    for is_read in [false, true] {
        let bench = Bench::new(4);
        let pages = bench.publish(leaves(1), FULL, &[]);
        let chunk = bench.chunk_of(&pages[0]);
        let tier = bench.tier(PolicyKind::None);
        tier.step();
        let running = tier.expect(&[Use::Chunk(chunk, Reads::of_pages(100.0))]);
        if is_read {
            bench.read(&pages[..100], 1);
        }
        // Reads have been seen, and are of no account by themselves any more.
        tier.step();
        bench.pass(36_000);
        tier.set_policy(PolicyKind::Plan);
        settle(&tier);
        assert_eq!(bench.copies().is_empty(), is_read);
        drop(running);
    }
}
