//! Asking the governors of all devices.

use std::sync::Arc;

use saki_base::DeviceId;

use super::admission::Gate;
use super::members::Members;

/// One lane's ways to ask, for all devices.
pub(crate) struct Gates {
    members: Arc<Members>,
    /// By device number.
    gates: Vec<Option<Gate>>,
}

impl Gates {
    pub fn new(members: &Arc<Members>) -> Self {
        Self { members: Arc::clone(members), gates: Vec::new() }
    }

    /// The gate of a device; `None` if the volume does not have it.
    #[inline]
    pub fn of(&mut self, device: DeviceId) -> Option<&mut Gate> {
        let place = usize::from(device.0);
        if !self.gates.get(place).is_some_and(Option::is_some) {
            self.meet(device)?;
        }
        self.gates[place].as_mut()
    }

    #[cold]
    fn meet(&mut self, device: DeviceId) -> Option<()> {
        let member = self.members.get(device)?;
        let place = usize::from(device.0);
        if self.gates.len() <= place {
            self.gates.resize_with(place + 1, || None);
        }
        self.gates[place] = Some(Gate::new(device, &member.admission));
        Some(())
    }
}
