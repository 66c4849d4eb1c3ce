//! The frames that an owner reads pages into and lends: each is free, being read into, or lent to one guest.

use std::time::Duration;

use saki_base::ArenaFrame;
use saki_fabric::LinkId;

/// A frame with a page that a guest reads.
struct Lent {
    frame: ArenaFrame,
    guest: LinkId,
    since: Duration,
}

/// All frames of the region.
pub struct Frames {
    /// The one that was used last is used first: it is in the processor's caches.
    free: Vec<ArenaFrame>,
    /// By frame.
    lent: Vec<Option<Lent>>,
}

impl Frames {
    pub fn new(frames: Vec<ArenaFrame>) -> Self {
        let lent = frames.iter().map(|_| None).collect();
        Self { free: frames, lent }
    }

    pub fn count(&self) -> usize {
        self.lent.len()
    }

    pub fn take(&mut self) -> Option<ArenaFrame> {
        self.free.pop()
    }

    /// A frame that was taken and not lent.
    pub fn give_back(&mut self, frame: ArenaFrame) {
        self.free.push(frame);
    }

    /// Lends a frame to a guest; gives its number.
    pub fn lend(&mut self, frame: ArenaFrame, guest: LinkId, since: Duration) -> u32 {
        let number = frame.index();
        let before = self.lent[number as usize].replace(Lent { frame, guest, since });
        assert!(before.is_none(), "frame {number} was lent twice");
        number
    }

    /// A guest has read a frame; `false` if it does not have it.
    pub fn free(&mut self, number: u32, guest: LinkId) -> bool {
        let Some(place) = self.lent.get_mut(number as usize) else { return false };
        let Some(lent) = place.take_if(|lent| lent.guest == guest) else { return false };
        self.free.push(lent.frame);
        true
    }

    /// Takes back whatever a guest has.
    pub fn free_all(&mut self, guest: LinkId) {
        for place in &mut self.lent {
            if let Some(lent) = place.take_if(|lent| lent.guest == guest) {
                self.free.push(lent.frame);
            }
        }
    }

    /// Guests that have had a frame since `time` or longer.
    pub fn kept_since(&self, time: Duration) -> impl Iterator<Item = LinkId> {
        self.lent.iter().flatten().filter(move |lent| lent.since <= time).map(|lent| lent.guest)
    }

    /// Frames that are lent.
    pub fn lent(&self) -> usize {
        self.lent.iter().flatten().count()
    }
}
