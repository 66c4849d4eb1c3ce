//! What some seeds are bent to: a situation that a mistake needs several things for at once, which seldom come together
//! by themselves.
//!
//! In all of them logs are late: what is committed can be seen, and is not durable, for some ten milliseconds. Whoever
//! tells of it, or builds on it, has to wait.

use saki_base::Random;

use super::kind::{Kind, Mixture};
use super::trouble::{Counted, Cut};
use crate::setup::{LATE_LOGS, Setup};
use crate::tables::focus::Focus;
use crate::tables::{Tables, WIDE};

/// How many seeds have one.
const SHARE: f64 = 0.3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// Many read by columns what a few change, each from what the one before has made of newer rows. The power goes as
    /// soon as somebody has been told.
    Shown,
    /// What everybody uses is altered, and built anew of newer rows. The power goes before the logs have those.
    Built,
    /// Rows and catalog are changed by one transaction, and read in one snapshot.
    Halves,
}

impl Scene {
    const ALL: [(Self, &str); 3] = [(Self::Shown, "shown"), (Self::Built, "built"), (Self::Halves, "halves")];

    /// The scene of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(scene, _)| *scene)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(scene, _)| *scene == self).map_or("", |(_, name)| name)
    }

    pub fn draw(random: &mut Random) -> Option<Self> {
        // What needs most luck comes most often.
        let often = [Self::Shown, Self::Shown, Self::Shown, Self::Built, Self::Halves];
        random.chance(SHARE).then(|| often[random.below(often.len() as u64) as usize])
    }

    pub fn bend(self, setup: &mut Setup) {
        setup.log_latency = LATE_LOGS;
        match self {
            // So late that many come to read before it is durable.
            Self::Shown => {
                (setup.columns, setup.delta_bytes, setup.log_latency) = (true, 64 << 20, 8 * LATE_LOGS);
            }
            Self::Built => (setup.latency, setup.indexes) = (setup.latency.min(10_000), false),
            Self::Halves => {}
        }
    }

    /// Clients at least, of which the first do something else than the rest.
    pub fn clients(self) -> u64 {
        if self == Self::Shown { 5 } else { 3 }
    }

    pub fn focus(self, tables: Tables) -> Focus {
        match self {
            Self::Shown => Focus::on(vec![WIDE], Some("columns")),
            Self::Built => Focus::default(),
            Self::Halves => Focus::on(vec![WIDE, tables.own(0)], None),
        }
    }

    pub fn mixture(self, client: usize) -> Mixture {
        use Kind::{
            AddColumn, Checkpoint, CreateIndex, DropColumn, DropIndex, Insert, Migrate, Pause, Picture, Read,
            RepeatableRead, Transaction, Transfer, Update,
        };
        Mixture::of(match (self, client) {
            // Without a checkpoint there are no columns, and behind one there is little that is newer.
            (Self::Shown, 0) => &[(Insert, 8), (Update, 5), (Checkpoint, 1)],
            // What transactions see nobody else is shown.
            (Self::Shown, _) => &[(Read, 12), (Pause, 6)],
            (Self::Built, 0) => &[(AddColumn, 6), (DropColumn, 6), (CreateIndex, 2), (DropIndex, 1), (Picture, 2)],
            // Of the two tables that it changes one is built anew.
            (Self::Built, _) => &[(Transfer, 8), (Transaction, 4), (Insert, 1)],
            (Self::Halves, 0) => &[(Migrate, 10), (Insert, 2), (Pause, 1)],
            (Self::Halves, _) => &[(RepeatableRead, 8), (Insert, 1)],
        })
    }

    /// How many steps each client takes, where it would take so many.
    pub fn steps(self, count: u64) -> u64 {
        count.max(24)
    }

    /// How many worlds end before their work is done, where so many would.
    pub fn cuts(self, count: u64) -> u64 {
        if self == Self::Halves { count.min(1) } else { count.clamp(4, 8) }
    }

    /// How a world ends, if not in any way.
    pub fn cut(self, random: &mut Random) -> Option<Cut> {
        let (counted, most) = match (self, random.below(4)) {
            (Self::Shown, 0) => (Counted::Answers, 30),
            (Self::Shown, _) => (Counted::News, 4),
            (Self::Built, 0) => (Counted::VolumeFlushes, 24),
            (Self::Built, _) => (Counted::LogFlushes, 30),
            (Self::Halves, _) => return None,
        };
        let at = random.below(most) + 1;
        Some(Cut { at, counted, is_early: false, is_kill: false, loses_logs: true })
    }
}
