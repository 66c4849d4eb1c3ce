//! The owner's side of regions: opening them for the peer, serving reads where the transport cannot reach memory
//! itself, and taking them back.

use super::core::{Granted, Link, Scene};
use crate::error::FabricError;
use crate::system::Lent;
use crate::wire::{Failure, Head, Kind, Open, Opened, READ_BYTES_MAX, Read};

/// Openings of one connection; handles are not used twice.
const GRANTS_MOST: usize = 1 << 16;
/// Bytes that wait for a peer that asks and does not take: more than what it may ask for, and messages.
const ANSWERS_BYTES_MOST: usize = 64 << 20;

impl Link {
    /// The peer wants to open a region.
    pub fn grant(&mut self, head: Head, body: &[u8], scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let open = Open::decode(body);
        let Open { key } = open.ok_or_else(|| FabricError::corrupt(&self.peer, "an opening without sense"))?;
        let handle = self.granted.len() as u32;
        let Some(arena) = scene.options.regions.find(&key).filter(|_| self.granted.len() < GRANTS_MOST) else {
            self.put(Kind::NotOpened, head.slot, &Failure::UnknownRegion.encode());
            return Ok(());
        };
        let (grant, with_file) = match &mut self.direct {
            None => (Vec::new(), false),
            Some(direct) => match direct.grant(handle, &arena) {
                Some(grant) => grant,
                None => {
                    self.put(Kind::NotOpened, head.slot, &Failure::Unreachable.encode());
                    return Ok(());
                }
            },
        };
        let (_, bytes) = arena.region();
        let opened = Opened { handle, region_bytes: bytes as u64, grant: &grant }.encode();
        match &mut self.stream {
            Some(stream) if with_file => stream.put_with_arena(Kind::Opened, head.slot, &opened, &arena),
            _ => self.put(Kind::Opened, head.slot, &opened),
        }
        self.granted.push(Some(Granted { key, arena }));
        Ok(())
    }

    /// The peer wants bytes of a region.
    pub fn serve(&mut self, head: Head, body: &[u8]) -> Result<(), FabricError> {
        let read = Read::decode(body).filter(|read| self.direct.is_none() && read.length as usize <= READ_BYTES_MAX);
        let read = read.ok_or_else(|| FabricError::corrupt(&self.peer, "a read without sense"))?;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if stream.queued_bytes() > ANSWERS_BYTES_MOST {
            return Err(FabricError::corrupt(&self.peer, "more reads at once than there may be"));
        }
        let answer = match self.granted.get(read.handle as usize) {
            Some(Some(granted)) => {
                Lent::new(&granted.arena, read.offset, read.length as usize).ok_or(Failure::OutOfRegion)
            }
            _ => Err(Failure::UnknownRegion),
        };
        match answer {
            Ok(lent) => stream.put_data(head.slot, lent),
            Err(failure) => stream.put(Kind::Failed, head.slot, &failure.encode()),
        }
        Ok(())
    }

    /// Tells the peer of regions that are no longer lent.
    pub fn take_back(&mut self, scene: &Scene<'_>) {
        let taken_back = scene.options.regions.taken_back();
        if !self.is_up() || taken_back == self.taken_back_seen {
            return;
        }
        self.taken_back_seen = taken_back;
        for handle in 0..self.granted.len() {
            let gone = |granted: &Granted| scene.options.regions.find(&granted.key).is_none();
            if self.granted[handle].as_ref().is_some_and(gone) {
                self.granted[handle] = None;
                self.put(Kind::TakenBack, handle as u32, &[]);
                if let Some(direct) = &mut self.direct {
                    direct.revoke(handle as u32);
                }
            }
        }
    }
}
