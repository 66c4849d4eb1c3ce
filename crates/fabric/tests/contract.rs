//! The contract over each transport that this machine has.

use std::sync::Arc;
use std::thread::JoinHandle;

use saki_base::SystemClock;
use saki_fabric::contract::{self, Subject, World};
use saki_fabric::{ClusterKey, Port, PortOptions, Shm, Tcp, Transport};

/// A subject in a thread of its own.
struct Threads {
    transport: fn() -> Box<dyn Transport>,
    address: String,
    nowhere: String,
    subject: Option<JoinHandle<()>>,
}

fn key() -> ClusterKey {
    ClusterKey::new(&[7; 32]).unwrap()
}

impl Threads {
    fn new(transport: fn() -> Box<dyn Transport>, address: &str, nowhere: &str) -> Self {
        let open = Box::new(move || Port::new(transport(), PortOptions::new(1, key())));
        let mut subject = Subject::new(open, Arc::new(SystemClock::default()), address).unwrap();
        let address = subject.address().to_owned();
        let subject = std::thread::spawn(move || subject.run());
        Self { transport, address, nowhere: nowhere.into(), subject: Some(subject) }
    }
}

impl World for Threads {
    fn options(&self) -> PortOptions {
        PortOptions::new(2, key())
    }

    fn open(&self, options: PortOptions) -> Port {
        Port::new((self.transport)(), options)
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn nowhere(&self) -> String {
        self.nowhere.clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            contract::quit(self);
            self.subject.take().unwrap().join().unwrap();
        }
    }
}

#[test]
fn tcp_keeps_the_contract() {
    // A port that was free a moment ago.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let tcp = || Box::new(Tcp::new().unwrap()) as Box<dyn Transport>;
    contract::run_all(&mut Threads::new(tcp, "127.0.0.1:0", &nowhere));
}

#[test]
fn shm_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let shm = || Box::new(Shm::new().unwrap()) as Box<dyn Transport>;
    contract::run_all(&mut Threads::new(shm, &path("subject"), &path("nobody")));
}
