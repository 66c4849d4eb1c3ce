//! Visits that their devices take no requests for at present, one queue for each device: a slow device that is busy
//! holds back nothing that lies on a fast one.

use std::collections::VecDeque;

use saki_base::DeviceId;

/// A visit of a step.
pub(super) type Held = (usize, u32);

#[derive(Default)]
pub(super) struct HeldBack {
    /// By device.
    queues: Vec<Queue>,
    count: usize,
}

#[derive(Default)]
struct Queue {
    visits: VecDeque<Held>,
    /// It has refused since the turn began, and is asked again in the next.
    is_closed: bool,
}

impl HeldBack {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// A turn begins: every device is asked again.
    pub fn begin_turn(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.is_closed = false);
    }

    /// The visit that has waited longest for a device that has not refused in this turn.
    pub fn next(&mut self) -> Option<Held> {
        if self.count == 0 {
            return None;
        }
        let queue = self.queues.iter_mut().find(|queue| !queue.is_closed && !queue.visits.is_empty())?;
        self.count -= 1;
        queue.visits.pop_front()
    }

    /// A device has refused a visit: it waits, before the others if it has waited before.
    pub fn refused(&mut self, device: DeviceId, visit: Held, again: bool) {
        let place = usize::from(device.0);
        if self.queues.len() <= place {
            self.queues.resize_with(place + 1, Queue::default);
        }
        let queue = &mut self.queues[place];
        queue.is_closed = true;
        self.count += 1;
        match again {
            true => queue.visits.push_front(visit),
            false => queue.visits.push_back(visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_refuses_holds_back_its_own_alone() {
        let (slow, fast) = (DeviceId(0), DeviceId(5));
        let mut held = HeldBack::default();
        held.refused(slow, (0, 1), false);
        held.refused(slow, (1, 2), false);
        held.refused(fast, (0, 3), false);
        assert_eq!((held.next(), held.len()), (None, 3));
        held.begin_turn();
        let first = held.next().expect("the slow one is asked again");
        held.refused(slow, first, true);
        assert_eq!(held.next(), Some((0, 3)));
        assert_eq!(held.next(), None);
        held.begin_turn();
        assert_eq!([held.next(), held.next(), held.next()], [Some((0, 1)), Some((1, 2)), None]);
        assert!(held.is_empty());
    }
}
