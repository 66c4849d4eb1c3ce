//! One thread's ways to several devices, with one wait for all of them.
//!
//! Files are served by the ring (or the inbox of the thread pool) of the first: one system call submits to all, one
//! wait hears of all. A device that cannot join (a model, a simulation) has a lane of its own, which is looked at
//! between short waits on the first one; those are for benchmarks and tests.
//!
//! Devices may be added at any time. What they are called is the caller's choice: small numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::Arena;

use crate::device::{Completion, Device, DeviceError, Lane, Operation, Wait, Waker};

/// How long a wait on the first lane goes on before lanes are looked at that have something in flight and cannot end
/// it.
const SLICE: Duration = Duration::from_micros(50);

/// One thread's ways to several devices. Belongs to the thread that first uses it.
pub struct Lanes {
    /// The first is waited on.
    lanes: Vec<Box<dyn Lane>>,
    /// By device number.
    routes: Vec<Option<Route>>,
    arena: Option<Arc<Arena>>,
}

#[derive(Clone, Copy)]
struct Route {
    lane: u32,
    file: u32,
}

impl Lanes {
    /// With one device, which has `number`; `arena` is registered where that is possible.
    ///
    /// # Errors
    /// Of the device.
    pub fn open(number: usize, device: &dyn Device, arena: Option<&Arc<Arena>>) -> Result<Self, DeviceError> {
        let lanes = vec![device.open_lane(arena)?];
        let mut routes = vec![None; number + 1];
        routes[number] = Some(Route { lane: 0, file: 0 });
        Ok(Self { lanes, routes, arena: arena.cloned() })
    }

    /// Whether a device of this number has been added.
    #[inline]
    pub fn serves(&self, number: usize) -> bool {
        self.routes.get(number).is_some_and(Option::is_some)
    }

    /// Adds a device, by the first lane if it may join it.
    ///
    /// # Errors
    /// Of the device, if it needs a lane of its own and cannot have one.
    pub fn add(&mut self, number: usize, device: &dyn Device) -> Result<(), DeviceError> {
        assert!(!self.serves(number), "device {number} is served already");
        let joined = device.partner().and_then(|partner| self.lanes[0].join(&partner));
        let route = match joined {
            Some(file) => Route { lane: 0, file },
            None => {
                self.lanes.push(device.open_lane(self.arena.as_ref())?);
                Route { lane: (self.lanes.len() - 1) as u32, file: 0 }
            }
        };
        if self.routes.len() <= number {
            self.routes.resize(number + 1, None);
        }
        self.routes[number] = Some(route);
        Ok(())
    }

    /// As [`Lane::submit`], to a device that is served.
    #[inline]
    pub fn submit(&mut self, number: usize, operation: Operation) {
        let route = self.routes[number].expect("a device is added before it is used");
        self.lanes[route.lane as usize].submit_to(route.file, operation);
    }

    /// As [`Lane::flush_submissions`].
    pub fn flush_submissions(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.flush_submissions());
    }

    /// As [`Lane::poll`], over all devices.
    pub fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let (first, others) = self.lanes.split_first_mut().expect("there is a first lane");
        if others.is_empty() {
            return first.poll(wait, completions);
        }
        let deadline = wait.deadline(Instant::now());
        loop {
            let count: usize = others.iter_mut().map(|lane| lane.poll(Wait::No, completions)).sum();
            let now = Instant::now();
            let Some(deadline) = deadline.filter(|deadline| count == 0 && *deadline > now) else {
                return count + first.poll(Wait::No, completions);
            };
            let left = deadline - now;
            let is_quiet = others.iter().all(|lane| lane.in_flight() == 0);
            let slice = if is_quiet { left } else { left.min(SLICE) };
            let count = first.poll(Wait::AtMost(slice), completions);
            // Back before its time: somebody woke it.
            if count > 0 || now.elapsed() < slice {
                return count;
            }
        }
    }

    /// Operations accepted and not yet returned.
    pub fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight()).sum()
    }

    /// Ends a waiting `poll` from another thread, also for devices that are added later.
    pub fn waker(&self) -> Arc<dyn Waker> {
        self.lanes[0].waker()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ScratchFile, expect_filled, filled};
    use crate::{Backend, DeviceOptions, ModeledDevice, SimDevice, SimOptions, open_device};

    const BYTES: usize = 4096;

    /// Writes to each device what tells it apart, and reads all of it in one go.
    fn each_has_its_own(devices: &[Arc<dyn Device>]) -> usize {
        let mut lanes = Lanes::open(3, &*devices[0], None).expect("opened");
        for (index, device) in devices.iter().enumerate().skip(1) {
            assert!(!lanes.serves(3 + index));
            lanes.add(3 + index, &**device).expect("added");
        }
        for round in 0..2 {
            for index in 0..devices.len() {
                let token = index as u64;
                let operation = match round {
                    0 => Operation::write(token, 0, filled(BYTES, token)),
                    _ => Operation::read(token, 0, filled(BYTES, u64::MAX)),
                };
                lanes.submit(3 + index, operation);
            }
            let mut done = Vec::new();
            while lanes.in_flight() > 0 {
                lanes.poll(Wait::AtMost(Duration::from_secs(1)), &mut done);
            }
            assert_eq!(done.len(), devices.len());
            for completion in done {
                completion.result.expect("carried out");
                expect_filled(completion.buffer.as_ref().expect("its buffer"), completion.token);
            }
        }
        lanes.lanes.len()
    }

    fn file(scratch: &ScratchFile, backend: Backend) -> Arc<dyn Device> {
        open_device(scratch.path(), DeviceOptions { backend, ..DeviceOptions::default() }).expect("opened")
    }

    #[test]
    fn files_share_one_lane_and_others_have_their_own() {
        let scratch: Vec<_> = (0..3).map(|_| ScratchFile::new(1 << 16)).collect();
        for backend in [Backend::Auto, Backend::Threads(2)] {
            let mut devices: Vec<_> = scratch.iter().map(|scratch| file(scratch, backend)).collect();
            assert_eq!(each_has_its_own(&devices), 1, "{backend:?}");
            devices.push(SimDevice::new(SimOptions::default()));
            assert_eq!(each_has_its_own(&devices), 2, "{backend:?}");
        }
    }

    #[test]
    fn a_slow_device_does_not_hold_back_a_fast_one_nor_a_wake() {
        let sim = || SimDevice::new(SimOptions::default());
        let slow = ModeledDevice::new(sim(), "latency=300ms".parse().expect("a model"));
        let quick = ModeledDevice::new(sim(), "latency=1ms".parse().expect("a model"));
        for (first, second) in [(&slow, &quick), (&quick, &slow)] {
            let mut lanes = Lanes::open(0, &**first, None).expect("opened");
            lanes.add(1, &**second).expect("added");
            let quick_number = usize::from(Arc::ptr_eq(second, &quick));
            lanes.submit(1 - quick_number, Operation::read(7, 0, filled(BYTES, 0)));
            lanes.submit(quick_number, Operation::read(8, 0, filled(BYTES, 0)));
            let (started, mut done) = (Instant::now(), Vec::new());
            while done.is_empty() {
                lanes.poll(Wait::AtMost(Duration::from_secs(5)), &mut done);
            }
            assert_eq!(done[0].token, 8);
            assert!(started.elapsed() < Duration::from_millis(250), "{:?}", started.elapsed());
            lanes.waker().wake();
            lanes.poll(Wait::AtMost(Duration::from_secs(5)), &mut Vec::new());
            assert!(started.elapsed() < Duration::from_millis(290), "{:?}", started.elapsed());
        }
    }
}
