//! Sockets whose client has not logged in yet: they have room of their own, so that nobody who only knocks takes the
//! place of somebody who may come in.
//!
//! When the room is full, somebody leaves for the next: first those who have given a wrong password and wait to be
//! told, then whoever has waited longest. A flood of connections that never log in keeps out those of the flood, and a
//! client that logs in at once is hardly ever met.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// The room before the door.
#[derive(Debug)]
pub struct Doors {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order in which they came.
    sockets: VecDeque<Socket>,
    next: u64,
}

#[derive(Debug)]
struct Socket {
    number: u64,
    /// Until it is known, none.
    task: Option<AbortHandle>,
    has_failed: bool,
}

/// One socket's place in the room; given back when dropped.
#[derive(Debug)]
pub struct Door {
    doors: Arc<Doors>,
    number: u64,
}

impl Doors {
    /// Room for `most` sockets, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), waiting: Mutex::default() })
    }

    /// A place for a socket, and whether another had to leave for it.
    pub fn enter(self: &Arc<Self>) -> (Door, bool) {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        let is_full = waiting.sockets.len() >= self.most;
        if is_full {
            let failed = waiting.sockets.iter().position(|socket| socket.has_failed);
            let left = waiting.sockets.remove(failed.unwrap_or(0));
            left.and_then(|socket| socket.task).iter().for_each(AbortHandle::abort);
        }
        waiting.sockets.push_back(Socket { number, task: None, has_failed: false });
        (Door { doors: Arc::clone(self), number }, is_full)
    }

    /// From now on a socket that has to leave is served no longer: `task` ends.
    pub fn serve(&self, number: u64, task: AbortHandle) {
        let mut waiting = self.waiting.lock();
        // None: it is through already.
        if let Some(socket) = waiting.sockets.iter_mut().find(|socket| socket.number == number) {
            socket.task = Some(task);
        }
    }

    /// Everybody leaves.
    pub fn close(&self) {
        let mut waiting = self.waiting.lock();
        for socket in waiting.sockets.drain(..) {
            socket.task.iter().for_each(AbortHandle::abort);
        }
    }
}

impl Door {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whoever waits here has given a wrong password: it is the first to leave.
    pub fn fail(&self) {
        let mut waiting = self.doors.waiting.lock();
        if let Some(socket) = waiting.sockets.iter_mut().find(|socket| socket.number == self.number) {
            socket.has_failed = true;
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut waiting = self.doors.waiting.lock();
        waiting.sockets.retain(|socket| socket.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_has_waited_longest_leaves_for_the_next() {
        let doors = Doors::new(2);
        let mut tasks = Vec::new();
        for expected in [false, false, true] {
            let (door, is_full) = doors.enter();
            assert_eq!(is_full, expected);
            let number = door.number();
            let task = tokio::spawn(async move {
                let _door = door;
                std::future::pending::<()>().await;
            });
            doors.serve(number, task.abort_handle());
            tasks.push(task);
        }
        assert!(tasks.remove(0).await.unwrap_err().is_cancelled());
        assert_eq!(doors.waiting.lock().sockets.len(), 2);
        doors.close();
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }

    #[tokio::test]
    async fn a_door_that_is_passed_makes_room() {
        let doors = Doors::new(1);
        drop(doors.enter());
        assert!(!doors.enter().1);
    }
}
