//! Which devices there are, and which are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use saki_base::DeviceId;
use saki_io::{Device, DeviceError};

use super::admission::Admission;
use crate::format::table::{DEVICES_MAX, DeviceEntry};

/// A device of the volume.
#[derive(Clone)]
pub(crate) struct Member {
    pub entry: DeviceEntry,
    /// Itself, or why it is not there.
    pub device: Result<Arc<dyn Device>, String>,
    pub admission: Arc<Admission>,
}

impl Member {
    /// For messages: the device's own name, or its label where it is missing.
    pub fn name(&self) -> String {
        self.device.as_ref().map_or_else(|_| self.entry.label.clone(), |device| device.name())
    }
}

/// The devices of a volume, by number. A number that was given up is not used again before the volume is opened anew:
/// lanes may still have the device that had it.
pub(crate) struct Members {
    list: RwLock<Vec<Option<Arc<Member>>>>,
    /// One bit for each device that has been written to and not been flushed since.
    written: AtomicU64,
    failed_flushes: AtomicU64,
    /// Bytes written to each device.
    written_bytes: [AtomicU64; DEVICES_MAX],
}

impl Members {
    pub fn new(members: Vec<Member>) -> Arc<Self> {
        let mut list = Vec::new();
        for member in members {
            put(&mut list, member);
        }
        Arc::new(Self {
            list: RwLock::new(list),
            written: AtomicU64::new(0),
            failed_flushes: AtomicU64::new(0),
            written_bytes: [const { AtomicU64::new(0) }; DEVICES_MAX],
        })
    }

    pub fn get(&self, number: DeviceId) -> Option<Arc<Member>> {
        self.list.read().get(usize::from(number.0)).cloned().flatten()
    }

    /// All of them, those that are missing too, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<Member>> {
        self.list.read().iter().flatten().cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.list.read().iter().flatten().count()
    }

    /// The device table as it is now.
    pub fn table(&self) -> Vec<DeviceEntry> {
        self.list.read().iter().flatten().map(|member| member.entry.clone()).collect()
    }

    /// A device that is there.
    ///
    /// # Errors
    /// `Failed`, with its name, if it is not.
    pub fn device(&self, number: DeviceId) -> Result<Arc<dyn Device>, DeviceError> {
        let absent = |device: String, message: String| DeviceError::Failed {
            device,
            action: "be reached",
            offset: 0,
            message,
            errno: None,
        };
        match self.get(number) {
            None => Err(absent(format!("device {}", number.0), "it is not part of the database any more".to_owned())),
            Some(member) => member.device.clone().map_err(|reason| absent(member.entry.label.clone(), reason)),
        }
    }

    /// The first device that is there.
    pub fn first(&self) -> (DeviceId, Arc<dyn Device>) {
        let list = self.list.read();
        let present =
            list.iter().flatten().find_map(|it| Some((it.entry.number, Arc::clone(it.device.as_ref().ok()?))));
        present.expect("a volume is opened by one of its devices")
    }

    /// Adds a device, or changes what is known of one.
    pub fn put(&self, member: Member) {
        put(&mut self.list.write(), member);
    }

    pub fn remove(&self, number: DeviceId) {
        let gone = self.list.write()[usize::from(number.0)].take();
        assert!(gone.is_some(), "device {} is removed twice", number.0);
        // What it was written nobody needs any more.
        self.written.fetch_and(!(1 << number.0), Ordering::AcqRel);
    }

    /// A number that no device has had since the volume was opened.
    pub fn vacant(&self) -> Option<DeviceId> {
        let next = self.list.read().len();
        (next < DEVICES_MAX).then_some(DeviceId(next as u16))
    }

    /// A write of so many bytes to the device has been submitted.
    pub fn written(&self, number: DeviceId, bytes: u64) {
        self.written_bytes[usize::from(number.0)].fetch_add(bytes, Ordering::Relaxed);
        let bit = 1 << number.0;
        // Read first: as a rule the bit is set already.
        if self.written.load(Ordering::Relaxed) & bit == 0 {
            self.written.fetch_or(bit, Ordering::Release);
        }
    }

    /// Makes durable what was written to a device. If that fails, the device may have dropped any of it, and a later
    /// flush that succeeds does not tell.
    ///
    /// # Errors
    /// The device's.
    pub fn flush(&self, flush: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        flush().inspect_err(|_| {
            self.failed_flushes.fetch_add(1, Ordering::AcqRel);
        })
    }

    /// How many flushes have failed: whoever finds another number than when it began to write cannot know whether all
    /// it has written is there.
    pub fn failed_flushes(&self) -> u64 {
        self.failed_flushes.load(Ordering::Acquire)
    }

    /// Bytes written to a device since the volume was opened, but for superblocks and journal.
    pub fn written_bytes(&self, number: DeviceId) -> u64 {
        self.written_bytes[usize::from(number.0)].load(Ordering::Relaxed)
    }

    /// Devices written to since they were last taken here. Whoever takes them flushes them, or says
    /// [`Self::written`] again.
    pub fn take_written(&self) -> Vec<DeviceId> {
        let bits = self.written.swap(0, Ordering::Acquire);
        (0..DEVICES_MAX as u16).filter(|number| bits & 1 << number != 0).map(DeviceId).collect()
    }
}

fn put(list: &mut Vec<Option<Arc<Member>>>, member: Member) {
    let place = usize::from(member.entry.number.0);
    assert!(place < DEVICES_MAX, "device {place} of {DEVICES_MAX}");
    if list.len() <= place {
        list.resize(place + 1, None);
    }
    list[place] = Some(Arc::new(member));
}
