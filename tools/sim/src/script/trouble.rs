//! What goes wrong with a seed's devices, and when its worlds end.

use saki_base::Random;

/// A cut, or a trouble's beginning, comes within so many operations of the devices, most often.
const SPAN: u64 = 3_000;
/// During so many operations a device lies, at least: about some.
const LIES_MIN: u64 = 60;

/// How a world ends before its work is done.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// At which of the operations that count.
    pub at: u64,
    pub counted: Counted,
    /// Counted from the world's beginning: the database may still be being opened. Else from when all was looked at.
    pub is_early: bool,
    /// The process is killed, and its devices keep what they had not flushed. Else the power goes.
    pub is_kill: bool,
    /// Of what the logs had not flushed nothing is left.
    pub loses_logs: bool,
}

/// Operations of devices that count for a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    All,
    /// Of the logs.
    Logs,
    /// Flushes, before which there is most to lose.
    Flushes,
    /// Those of the logs.
    LogFlushes,
    /// Those of the volume, between a generation and the superblock that refers to it, and behind that.
    VolumeFlushes,
    /// What clients were told: from then on it has to be there.
    Answers,
    /// Of those, what tells of a commit before its own client was told of it, and of what was altered.
    News,
}

/// What goes wrong with devices, from one operation to another.
#[derive(Clone, Debug)]
pub struct Weather {
    pub from: u64,
    pub until: u64,
    /// Of the volume; else of the logs.
    pub on_disk: bool,
    /// Counted from the world's beginning, and over when the database has been opened. Else from when all was looked
    /// at.
    pub is_early: bool,
    pub trouble: Trouble,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    Full,
    Slow,
    Reads,
    Writes,
    Flushes,
    Flips,
    /// Writes are acknowledged and not done.
    Lost,
    /// Writes are acknowledged and done elsewhere.
    Misdirected,
}

/// A number of operations: small ones as probable as large ones.
fn early(random: &mut Random) -> u64 {
    let span = 1 << random.range(3..13);
    random.below(span.min(SPAN)) + 1
}

impl Cut {
    /// The end of a world, after one that ended so.
    pub fn draw(random: &mut Random, before: Option<&Self>) -> Self {
        // What a process that was killed has left unflushed, the next one finds; and loses, if the power goes before it
        // has flushed that: while it is being opened, or as soon as somebody has been told of it.
        if before.is_some_and(|before| before.is_kill) && random.chance(0.75) {
            let is_early = random.chance(0.5);
            let (counted, most) = match random.below(3) {
                0 => (Counted::Flushes, 8),
                _ if is_early => (Counted::Logs, 8),
                _ => (Counted::Logs, 2),
            };
            let loses_logs = random.chance(0.3);
            return Self { at: random.below(most) + 1, counted, is_early, is_kill: false, loses_logs };
        }
        // Of the logs' operations, and of flushes, there are some for each transaction.
        let few = if random.chance(0.3) { 8 } else { 120 };
        let (counted, at) = match random.below(10) {
            0 => (Counted::Logs, random.below(2 * few) + 1),
            1 => (Counted::Flushes, random.below(few) + 1),
            2 => (Counted::LogFlushes, random.below(few) + 1),
            // There are two or three for each publication.
            3 => (Counted::VolumeFlushes, random.below(few.min(24)) + 1),
            // One or two for each step.
            4 | 5 => (Counted::Answers, random.below(few.min(60)) + 1),
            6 | 7 => (Counted::News, random.below(few.min(12)) + 1),
            _ => (Counted::All, early(random)),
        };
        // Before a flush of a log a process leaves most that is not durable.
        let (kills, losses) = match counted {
            Counted::LogFlushes => (0.7, 0.3),
            // What was told too early is gone with the logs.
            Counted::Answers | Counted::News => (0.1, 0.7),
            _ => (0.3, 0.3),
        };
        let (is_early, is_kill) = (random.chance(0.5), random.chance(kills));
        Self { at, counted, is_early, is_kill, loses_logs: random.chance(losses) }
    }
}

impl Weather {
    pub fn draw(random: &mut Random) -> Vec<Self> {
        if random.chance(0.6) {
            return Vec::new();
        }
        let troubles = [
            Trouble::Full,
            Trouble::Slow,
            Trouble::Slow,
            Trouble::Reads,
            Trouble::Writes,
            Trouble::Flushes,
            Trouble::Flips,
        ];
        let mut all = Vec::new();
        for _ in 0..random.range(1..3) {
            let trouble = troubles[random.below(troubles.len() as u64) as usize];
            let (from, is_early) = (early(random), random.chance(0.3));
            // A log is not read before it is opened again.
            let is_read = matches!(trouble, Trouble::Reads | Trouble::Flips);
            let on_disk = is_read && !is_early || random.chance(0.5);
            all.push(Self { from, until: from + early(random), on_disk, is_early, trouble });
        }
        all
    }

    /// A device says of some writes that they are done.
    pub fn of_a_liar(random: &mut Random) -> Self {
        let trouble = [Trouble::Lost, Trouble::Misdirected][random.below(2) as usize];
        // Soon: it is to come before the world ends.
        let span = 1 << random.range(2..9);
        let from = random.below(span) + 1;
        let (on_disk, is_early) = (random.chance(0.6), random.chance(0.2));
        Self { from, until: from + LIES_MIN + early(random), on_disk, is_early, trouble }
    }
}
