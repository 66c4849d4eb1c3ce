//! Who works where only one works at a time: first come, first served, and whoever waits may give up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::stop::{PAUSE, Stop};
use saki_catalog::Result;

/// A place for one, and the queue before it.
#[derive(Default)]
pub struct Turns {
    queue: Mutex<Queue>,
    /// Whoever is first may have the turn now.
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    is_taken: bool,
    /// Numbers of those who wait, the first in front.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A turn; dropped, it is the next one's.
#[must_use = "dropped, it is the next one's turn"]
pub struct Turn<'t>(&'t Turns);

impl Turns {
    /// Waits for a turn.
    pub fn lock(&self) -> Turn<'_> {
        let Ok(turn) = self.take(|| Ok::<_, Infallible>(()));
        turn
    }

    /// The same, unless the work is told to stop.
    ///
    /// # Errors
    /// 57014 then, and 55P03 when its patience is over.
    pub fn lock_unless(&self, stop: &Stop) -> Result<Turn<'_>> {
        self.take(stop.waiting())
    }

    /// The same for so long at most.
    pub fn try_lock_for(&self, patience: Duration) -> Option<Turn<'_>> {
        let until = Instant::now() + patience;
        self.take(|| if Instant::now() < until { Ok(()) } else { Err(()) }).ok()
    }

    /// Waits for as long as `goes_on` says so, which is asked from time to time.
    fn take<E>(&self, goes_on: impl Fn() -> Result<(), E>) -> Result<Turn<'_>, E> {
        let mut queue = self.queue.lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(number);
        loop {
            if !queue.is_taken && queue.waiting.front() == Some(&number) {
                queue.waiting.pop_front();
                queue.is_taken = true;
                return Ok(Turn(self));
            }
            if let Err(error) = goes_on() {
                queue.waiting.retain(|waiting| *waiting != number);
                self.moved.notify_all();
                return Err(error);
            }
            self.moved.wait_for(&mut queue, PAUSE);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().is_taken = false;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Until so many wait.
    fn until_waiting(turns: &Turns, count: usize) {
        while turns.queue.lock().waiting.len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn turns_come_in_the_order_in_which_they_were_asked_for() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        let first = turns.lock();
        std::thread::scope(|scope| {
            for number in 0..5 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = match number % 2 {
                        0 => turns.lock(),
                        _ => turns.lock_unless(&Stop::default()).expect("nobody stops it"),
                    };
                    order.lock().push(number);
                });
                until_waiting(turns, number + 1);
            }
            std::thread::sleep(4 * PAUSE);
            drop(first);
        });
        assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn whoever_gives_up_leaves_the_queue_to_those_behind() {
        let (turns, stop) = (Turns::default(), Stop::default());
        let first = turns.lock();
        let impatient = Stop::with_patience(Some(Duration::from_millis(20)));
        assert_eq!(turns.lock_unless(&impatient).err().expect("no turn").sqlstate(), "55P03");
        assert!(turns.try_lock_for(Duration::from_millis(20)).is_none());
        std::thread::scope(|scope| {
            let stopped = scope.spawn(|| turns.lock_unless(&stop).map(drop));
            until_waiting(&turns, 1);
            let behind = scope.spawn(|| drop(turns.lock()));
            until_waiting(&turns, 2);
            stop.tell();
            assert_eq!(stopped.join().expect("no panic").unwrap_err().sqlstate(), "57014");
            assert!(!behind.is_finished(), "the turn is another's");
            drop(first);
            behind.join().expect("no panic");
        });
        assert!(turns.lock_unless(&impatient).is_ok() && turns.try_lock_for(Duration::ZERO).is_some());
    }
}
