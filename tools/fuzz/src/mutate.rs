//! Seeded damage to valid bytes: what coverage-guided fuzzing does, blindly but in seconds.

use saki_base::Random;

/// Numbers at which lengths and counts go wrong.
const EDGES: [u64; 10] = [0, 1, 7, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Damages `bytes` in one to eight places.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            bytes.push(random.next_u64() as u8);
        }
        let at = place(bytes.len(), random);
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next_u64() as u8,
            2 => overwrite(bytes, at, EDGES[random.below(EDGES.len() as u64) as usize], random),
            3 => {
                let value = random.next_u64() >> random.below(64);
                overwrite(bytes, at, value, random);
            }
            4 => {
                let (from, length) = (place(bytes.len(), random), random.below(64) as usize);
                for step in 0..length.min(bytes.len() - at.max(from)) {
                    bytes[at + step] = bytes[from + step];
                }
            }
            5 => bytes.truncate(at.max(1)),
            _ => {
                let end = (at + random.below(32) as usize).min(bytes.len());
                random.fill(&mut bytes[at..end]);
            }
        }
    }
}

/// Half of all damage goes to the first bytes, where headers are.
fn place(length: usize, random: &mut Random) -> usize {
    let within = if random.chance(0.5) { length.min(64) } else { length };
    random.below(within as u64) as usize
}

fn overwrite(bytes: &mut [u8], at: usize, value: u64, random: &mut Random) {
    let width = (1 << random.below(4)).min(bytes.len() - at);
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}
