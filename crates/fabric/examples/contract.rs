//! The contract of the fabric over a transport of this machine, or of two: `contract TRANSPORT [hosts]`. With `hosts`,
//! the environment says which one this is, as `tools/rdma/vm` sets it: the suite runs on host 0, its subject on host 1.

use std::process::ExitCode;
use std::sync::Arc;

use saki_base::SystemClock;
use saki_fabric::contract::{self, Subject, World};
use saki_fabric::{ClusterKey, FabricError, Port, PortOptions, Shm, Tcp, Transport, Verbs};

fn open(transport: &str) -> Result<Box<dyn Transport>, FabricError> {
    Ok(match transport {
        "tcp" => Box::new(Tcp::new()?),
        "shm" => Box::new(Shm::new()?),
        "verbs" => Box::new(Verbs::new(None)?),
        other => panic!("no transport {other}; there are tcp, shm and verbs"),
    })
}

fn options(node: u64) -> PortOptions {
    PortOptions::new(node, ClusterKey::new(&[7; 32]).expect("the key is long enough"))
}

struct Hosts {
    transport: String,
    address: String,
    nowhere: String,
}

impl World for Hosts {
    fn options(&self) -> PortOptions {
        options(2)
    }

    fn open(&self, options: PortOptions) -> Port {
        Port::new(open(&self.transport).expect("the transport opened before"), options)
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn nowhere(&self) -> String {
        self.nowhere.clone()
    }
}

fn subject(transport: &str, address: &str) -> Result<Subject, FabricError> {
    let name = transport.to_owned();
    let opener = move || Port::new(open(&name).expect("the transport opened before"), options(1));
    open(transport)?;
    Subject::new(Box::new(opener), Arc::new(SystemClock::default()), address)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let transport = arguments.first().expect("contract TRANSPORT [hosts]").clone();
    let variable = |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.into());
    let on_hosts = arguments.get(1).is_some_and(|argument| argument == "hosts");
    let (own, peer) = (variable("SELF_IP", "127.0.0.1"), variable("PEER_IP", "127.0.0.1"));
    let at = |host: &str| match &*transport {
        "shm" => std::env::temp_dir().join(format!("contract-{}", std::process::id())).to_string_lossy().into_owned(),
        _ => format!("{host}:7433"),
    };
    let nowhere = if transport == "shm" { "/nowhere/at/all".into() } else { format!("{peer}:9") };
    if on_hosts && variable("HOST", "0") == "1" {
        subject(&transport, &at(&own)).expect("it listens").run();
        return ExitCode::SUCCESS;
    }
    let address = at(if on_hosts { &peer } else { &own });
    let thread = (!on_hosts).then(|| {
        let mut subject = subject(&transport, &address).expect("it listens");
        std::thread::spawn(move || subject.run())
    });
    let mut world = Hosts { transport: transport.clone(), address, nowhere };
    contract::run_all(&mut world);
    contract::quit(&mut world);
    if let Some(thread) = thread {
        thread.join().expect("the subject ends well");
    }
    println!("{transport} keeps the contract");
    ExitCode::SUCCESS
}
