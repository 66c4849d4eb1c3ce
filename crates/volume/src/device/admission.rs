//! Asking the device's governor on behalf of a query.
//!
//! The governor divides a device's depth by the number of claimants, so it must know
//! them. A share is registered when a lane meets it, and taken back once its query is
//! gone; since nobody announces that, the registry looks when the next share comes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::DeviceId;
use saki_io::Governor;
use saki_page::IoShare;

/// One device's governor and the shares registered with it.
pub(crate) struct Admission {
    pub governor: Arc<Governor>,
    shares: Mutex<Vec<Weak<IoShare>>>,
}

/// One lane's way to ask; remembers the shares it has met.
pub(crate) struct Gate {
    device: DeviceId,
    admission: Arc<Admission>,
    met: Vec<Weak<IoShare>>,
}

/// A lane forgets shares beyond so many, and meets them again.
const MET_MAX: usize = 16;

impl Admission {
    pub fn new(governor: Arc<Governor>) -> Arc<Self> {
        Arc::new(Self { governor, shares: Mutex::new(Vec::new()) })
    }

    fn register(&self, share: &Arc<IoShare>) {
        let mut shares = self.shares.lock();
        shares.retain(|known| {
            let alive = known.strong_count() > 0;
            if !alive {
                self.governor.unregister_share();
            }
            alive
        });
        if !shares.iter().any(|known| is(known, share)) {
            self.governor.register_share();
            shares.push(Arc::downgrade(share));
        }
    }
}

/// A weak reference keeps its allocation, so an address is never another share's.
fn is(known: &Weak<IoShare>, share: &Arc<IoShare>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(share))
}

impl Gate {
    pub fn new(device: DeviceId, admission: &Arc<Admission>) -> Self {
        Self { device, admission: Arc::clone(admission), met: Vec::new() }
    }

    /// Requests that the device shall have in flight at present.
    pub fn depth(&self) -> u32 {
        self.admission.governor.limit()
    }

    /// Counts a read on the device and on the share, if both allow it.
    #[inline]
    pub fn try_acquire(&mut self, share: &Arc<IoShare>) -> bool {
        if !self.met.iter().any(|known| is(known, share)) {
            self.meet(share);
        }
        if !share.begin() {
            return false;
        }
        let is_let_in = self.admission.governor.try_acquire(share.on_device(self.device), u32::MAX);
        if !is_let_in {
            share.end();
        }
        is_let_in
    }

    /// Counts a read on the share that is one request with the read before it, which the device has let in. `true`
    /// obliges to [`Self::alight`].
    #[inline]
    pub fn try_ride(&self, share: &IoShare) -> bool {
        share.begin()
    }

    /// A read of `bytes` that rode along has finished.
    #[inline]
    pub fn alight(&self, share: &IoShare, bytes: u64) {
        self.admission.governor.carried(bytes);
        share.end();
    }

    #[cold]
    fn meet(&mut self, share: &Arc<IoShare>) {
        self.admission.register(share);
        share.meet(self.device);
        if self.met.len() == MET_MAX {
            self.met.remove(0);
        }
        self.met.push(Arc::downgrade(share));
    }

    /// A read of `bytes` that was let in has finished after `latency`.
    #[inline]
    pub fn release(&self, share: &IoShare, latency: Duration, bytes: u64) {
        self.admission.governor.release(share.on_device(self.device), latency, bytes);
        share.end();
    }
}

#[cfg(test)]
mod tests {
    use saki_base::VirtualClock;

    use super::*;

    #[test]
    fn each_share_is_registered_while_it_lives() {
        let governor = Governor::with_clock(8, Arc::new(VirtualClock::default()));
        let admission = Admission::new(governor);
        let (mut gate, mut other) = (Gate::new(DeviceId(0), &admission), Gate::new(DeviceId(0), &admission));
        let share = IoShare::new(u32::MAX);
        assert!(gate.try_acquire(&share) && other.try_acquire(&share) && gate.try_acquire(&share));
        assert_eq!(admission.shares.lock().len(), 1);
        for _ in 0..3 {
            gate.release(&share, Duration::from_micros(100), 4096);
        }
        drop(share);
        assert!(gate.try_acquire(&IoShare::new(u32::MAX)));
        assert_eq!(admission.shares.lock().len(), 1, "the old share has been taken back");
    }

    #[test]
    fn a_share_keeps_its_own_bound() {
        let admission = Admission::new(Governor::with_clock(8, Arc::new(VirtualClock::default())));
        let mut gate = Gate::new(DeviceId(0), &admission);
        let in_order = IoShare::new(1);
        assert!(gate.try_acquire(&in_order));
        assert!(!gate.try_acquire(&in_order));
        gate.release(&in_order, Duration::ZERO, 4096);
        assert!(gate.try_acquire(&in_order));
    }
}
