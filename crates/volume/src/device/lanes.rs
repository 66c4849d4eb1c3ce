//! One thread's way to all devices of a volume, those that are added later too.

use std::sync::Arc;

use saki_base::{Arena, DeviceId};
use saki_io::{Completion, DeviceError, Lanes, Operation, Wait, Waker};

use super::members::Members;

/// One thread's way to all devices. An operation for a device that is not there completes with its error.
pub(crate) struct DeviceLanes {
    members: Arc<Members>,
    lanes: Lanes,
    /// Operations of devices that are not there, to be returned by the next poll.
    refused: Vec<Completion>,
}

impl DeviceLanes {
    /// `arena` is registered where that is possible.
    pub fn open(members: &Arc<Members>, arena: Option<&Arc<Arena>>) -> Result<Self, DeviceError> {
        let (number, device) = members.first();
        let lanes = Lanes::open(usize::from(number.0), &*device, arena)?;
        Ok(Self { members: Arc::clone(members), lanes, refused: Vec::new() })
    }

    #[inline]
    pub fn submit(&mut self, number: DeviceId, operation: Operation) {
        let place = usize::from(number.0);
        if !self.lanes.serves(place)
            && let Err(error) = self.meet(number)
        {
            let Operation { token, buffer, .. } = operation;
            self.refused.push(Completion { token, buffer, result: Err(error) });
            return;
        }
        self.lanes.submit(place, operation);
    }

    #[cold]
    fn meet(&mut self, number: DeviceId) -> Result<(), DeviceError> {
        let device = self.members.device(number)?;
        self.lanes.add(usize::from(number.0), &*device)
    }

    pub fn flush_submissions(&mut self) {
        self.lanes.flush_submissions();
    }

    pub fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        if self.refused.is_empty() {
            return self.lanes.poll(wait, completions);
        }
        let count = self.refused.len();
        completions.append(&mut self.refused);
        count + self.lanes.poll(Wait::No, completions)
    }

    /// Operations accepted and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.lanes.in_flight() + self.refused.len()
    }

    pub fn waker(&self) -> Arc<dyn Waker> {
        self.lanes.waker()
    }
}
