//! A simulated device somebody looks on at: for pictures of it at any instant, records of what was done to it, faults
//! at an operation of one's choice.

use std::sync::Arc;

use saki_base::Arena;

use super::SimDevice;
use crate::device::{Completion, Device, DeviceError, Lane, Operation, Wait, Waker};

/// Looks on at a device's operations, from whichever threads they come.
pub trait Observer: Send + Sync {
    /// An operation is about to be submitted.
    fn submitting(&self, _device: &SimDevice, _operation: &Operation) {}
    /// An operation has been submitted.
    fn submitted(&self, _device: &SimDevice) {}
    /// A lane with so many operations in flight is about to be asked for those that are done.
    fn polling(&self, _device: &SimDevice, _in_flight: usize, _wait: Wait) {}
    /// Operations may have been carried out.
    fn polled(&self, _device: &SimDevice) {}
}

/// The device, under somebody's eyes.
pub struct ObservedDevice {
    device: Arc<SimDevice>,
    observer: Arc<dyn Observer>,
}

impl ObservedDevice {
    /// Has `observer` look on at what is done to `device` by way of this.
    pub fn new(device: &Arc<SimDevice>, observer: Arc<impl Observer + 'static>) -> Arc<Self> {
        Arc::new(Self { device: Arc::clone(device), observer })
    }
}

impl Device for ObservedDevice {
    fn name(&self) -> String {
        self.device.name()
    }
    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.device.length_bytes()
    }
    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }
    fn read_only(&self) -> bool {
        self.device.read_only()
    }
    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.device.ensure_length(bytes)
    }
    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let lane = self.device.open_lane(arena)?;
        Ok(Box::new(ObservedLane { lane, device: Arc::clone(&self.device), observer: Arc::clone(&self.observer) }))
    }
}

struct ObservedLane {
    lane: Box<dyn Lane>,
    device: Arc<SimDevice>,
    observer: Arc<dyn Observer>,
}

impl Lane for ObservedLane {
    fn submit(&mut self, operation: Operation) {
        self.observer.submitting(&self.device, &operation);
        self.lane.submit(operation);
        self.observer.submitted(&self.device);
    }
    fn flush_submissions(&mut self) {
        self.lane.flush_submissions();
    }
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        self.observer.polling(&self.device, self.lane.in_flight(), wait);
        let count = self.lane.poll(wait, completions);
        self.observer.polled(&self.device);
        count
    }
    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }
    fn waker(&self) -> Arc<dyn Waker> {
        self.lane.waker()
    }
}
