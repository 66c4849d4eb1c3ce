//! What lies between simulated nodes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::{Arena, Clock, Random, VirtualClock};

/// Bytes under way in one direction of a connection before a writer has to wait.
const BYTES_UNDER_WAY_MOST: usize = 256 << 10;

/// What goes wrong, as probabilities for each packet, and how long the way takes.
#[derive(Clone, Debug)]
pub struct SimRates {
    pub delay: RangeInclusive<Duration>,
    /// A packet overtakes those before it.
    pub reorder: f64,
    pub drop: f64,
    pub duplicate: f64,
    /// One bit of it is turned.
    pub damage: f64,
    /// Its connection is cut.
    pub cut: f64,
    /// Links have a direct way: rings and one-sided reads; else only a wire.
    pub direct: bool,
}

impl Default for SimRates {
    fn default() -> Self {
        let delay = Duration::from_micros(10)..=Duration::from_micros(200);
        Self { delay, reorder: 0.0, drop: 0.0, duplicate: 0.0, damage: 0.0, cut: 0.0, direct: true }
    }
}

/// The network of a simulation, shared by the transports of its nodes.
#[derive(Clone)]
pub struct SimNetwork {
    pub(super) state: Arc<Mutex<Network>>,
    clock: Arc<VirtualClock>,
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct End {
    pub connection: u64,
    pub is_caller: bool,
}

impl End {
    pub fn other(self) -> Self {
        Self { is_caller: !self.is_caller, ..self }
    }
}

/// What is on its way to one end, by when it arrives.
#[derive(Default)]
pub(super) struct Way {
    packets: BTreeMap<(Duration, u64), VecDeque<u8>>,
    /// Messages of the direct way.
    messages: BTreeMap<(Duration, u64), Vec<u8>>,
    bytes: usize,
    last: Duration,
}

pub(super) struct Connection {
    nodes: [String; 2],
    ways: [Way; 2],
    /// Nothing is sent any more.
    ended: bool,
    /// Which ends are closed.
    gone: [bool; 2],
}

pub(super) struct Network {
    random: Random,
    rates: SimRates,
    clock: Arc<VirtualClock>,
    connections: BTreeMap<u64, Connection>,
    /// Callers that wait to be accepted, by the node that they call.
    calls: HashMap<String, VecDeque<u64>>,
    /// Pairs of nodes between which nothing passes.
    apart: HashSet<(String, String)>,
    pub lent: HashMap<(End, u32), Arc<Arena>>,
    /// See [`SimNetwork::mangled`]; by the names in order.
    mangled: HashMap<[String; 2], u64>,
    next: u64,
}

impl SimNetwork {
    pub fn new(seed: u64, rates: SimRates) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let network = Network {
            random: Random::new(seed),
            rates,
            clock: Arc::clone(&clock),
            connections: BTreeMap::new(),
            calls: HashMap::new(),
            apart: HashSet::new(),
            lent: HashMap::new(),
            mangled: HashMap::new(),
            next: 1,
        };
        Self { state: Arc::new(Mutex::new(network)), clock }
    }

    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Other faults from now on.
    pub fn set_rates(&self, rates: SimRates) {
        self.state.lock().rates = rates;
    }

    /// Nothing passes between the two from now on, or passes again. Neither is told.
    pub fn part(&self, one: &str, other: &str, apart: bool) {
        let mut state = self.state.lock();
        for pair in [(one, other), (other, one)] {
            let pair = (pair.0.to_owned(), pair.1.to_owned());
            if apart {
                state.apart.insert(pair);
            } else {
                state.apart.remove(&pair);
            }
        }
    }

    /// How often bytes between the two were lost, doubled, overtaken or damaged so far: of a wire any of these, of
    /// one-sided reads damage. A read during which this has not gone up gives its region's bytes; of another nobody
    /// can say, since the bytes of reads carry no check.
    pub fn mangled(&self, one: &str, other: &str) -> u64 {
        self.state.lock().mangled.get(&pair(one, other)).copied().unwrap_or(0)
    }

    /// Ends all connections between the two; both are told.
    pub fn cut(&self, one: &str, other: &str) {
        let mut state = self.state.lock();
        let between = |connection: &Connection| {
            let nodes = [&*connection.nodes[0], &*connection.nodes[1]];
            nodes == [one, other] || nodes == [other, one]
        };
        state.connections.values_mut().filter(|connection| between(connection)).for_each(Connection::end);
    }
}

/// Two nodes, whoever is named first.
fn pair(one: &str, other: &str) -> [String; 2] {
    [one.min(other).to_owned(), one.max(other).to_owned()]
}

impl Connection {
    fn end(&mut self) {
        self.ended = true;
    }
}

impl Network {
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Lets time pass until something arrives somewhere, at most for `time`.
    pub fn pass(&mut self, time: Duration) {
        let now = self.now();
        let arrivals = self.connections.values().flat_map(|connection| &connection.ways).flat_map(Way::arrivals);
        let next = arrivals.filter(|at| *at > now).min();
        let until = now.saturating_add(time);
        self.clock.advance_to(next.map_or(until, |next| next.min(until)));
    }

    pub fn listen(&mut self, node: &str) {
        self.calls.entry(node.into()).or_default();
    }

    pub fn unlisten(&mut self, node: &str) {
        for connection in self.calls.remove(node).unwrap_or_default() {
            self.close(End { connection, is_caller: false });
        }
    }

    /// `None`: nobody listens there.
    pub fn connect(&mut self, from: &str, to: &str) -> Option<End> {
        let number = self.next;
        self.calls.get_mut(to)?.push_back(number);
        self.next += 1;
        let nodes = [from.to_owned(), to.to_owned()];
        self.connections.insert(number, Connection { nodes, ways: Default::default(), ended: false, gone: [false; 2] });
        Some(End { connection: number, is_caller: true })
    }

    pub fn accept(&mut self, node: &str) -> Option<End> {
        let connection = self.calls.get_mut(node)?.pop_front()?;
        Some(End { connection, is_caller: false })
    }

    /// One end is gone: what it has sent still arrives at the other, and then the end.
    pub fn close(&mut self, end: End) {
        self.lent.retain(|(of, _), _| *of != end);
        let Some(connection) = self.connections.get_mut(&end.connection) else { return };
        connection.end();
        connection.gone[usize::from(!end.is_caller)] = true;
        if connection.gone == [true; 2] {
            self.connections.remove(&end.connection);
        }
    }

    fn way(&mut self, to: End) -> Option<(&mut Way, bool)> {
        let connection = self.connections.get_mut(&to.connection)?;
        let index = usize::from(!to.is_caller);
        Some((&mut connection.ways[index], connection.ended))
    }

    /// Whether what is sent now is lost without a word.
    fn is_lost(&mut self, from: End) -> bool {
        let Some(connection) = self.connections.get(&from.connection) else { return true };
        let apart = self.apart.contains(&(connection.nodes[0].clone(), connection.nodes[1].clone()));
        apart || self.random.chance(self.rates.drop)
    }

    /// Something happened to bytes of this connection.
    fn mangle(&mut self, connection: u64) {
        if let Some(Connection { nodes: [one, other], .. }) = self.connections.get(&connection) {
            *self.mangled.entry(pair(one, other)).or_default() += 1;
        }
    }

    fn delay(&mut self) -> Duration {
        let (least, most) = (self.rates.delay.start().as_nanos() as u64, self.rates.delay.end().as_nanos() as u64);
        Duration::from_nanos(self.random.range(least..most + 1))
    }

    /// When something that is sent now arrives: after what was sent before, unless it overtakes.
    fn arrival(&mut self, to: End) -> Duration {
        let overtakes = self.random.chance(self.rates.reorder);
        let at = self.now() + self.delay();
        let Some((way, _)) = self.way(to) else { return at };
        let (before, overtakes) = (way.last, overtakes && at < way.last);
        way.last = before.max(at);
        if overtakes {
            self.mangle(to.connection);
            return at;
        }
        at.max(before)
    }

    /// Sends a packet of a wire; gives how many bytes were taken: `Ok(0)` is that there is no room.
    pub fn write(&mut self, from: End, bytes: &[u8]) -> Result<usize, &'static str> {
        let to = from.other();
        if self.random.chance(self.rates.cut)
            && let Some(connection) = self.connections.get_mut(&from.connection)
        {
            connection.end();
        }
        let Some((way, ended)) = self.way(to) else { return Err("the connection is gone") };
        if ended {
            return Err("the connection was cut");
        }
        let length = bytes.len().min(BYTES_UNDER_WAY_MOST - way.bytes.min(BYTES_UNDER_WAY_MOST));
        // Writes are short at times, as those of sockets are.
        let length =
            if length > 1 && self.random.chance(0.1) { self.random.below(length as u64) as usize + 1 } else { length };
        if length == 0 {
            return Ok(0);
        }
        if self.is_lost(from) {
            self.mangle(from.connection);
            return Ok(length);
        }
        let mut packet: VecDeque<u8> = bytes[..length].to_vec().into();
        if self.random.chance(self.rates.damage) {
            let bit = self.random.below(length as u64 * 8);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.mangle(from.connection);
        }
        let copies = if self.random.chance(self.rates.duplicate) { 2 } else { 1 };
        for copy in 0..copies {
            if copy > 0 {
                self.mangle(from.connection);
            }
            let (at, number) = (self.arrival(to), self.next);
            self.next += 1;
            if let Some((way, _)) = self.way(to) {
                way.bytes += length;
                way.packets.insert((at, number), packet.clone());
            }
        }
        Ok(length)
    }

    /// What has arrived at an end; `Ok(0)`: nothing yet, `Err`: and nothing will.
    pub fn read(&mut self, end: End, into: &mut [u8]) -> Result<usize, ()> {
        let now = self.now();
        let Some((way, ended)) = self.way(end) else { return Err(()) };
        let mut done = 0;
        while done < into.len() {
            let Some(mut first) = way.packets.first_entry().filter(|first| first.key().0 <= now) else { break };
            let packet = first.get_mut();
            let count = packet.len().min(into.len() - done);
            for (to, from) in into[done..].iter_mut().zip(packet.drain(..count)) {
                *to = from;
            }
            done += count;
            way.bytes -= count;
            if packet.is_empty() {
                first.remove();
            }
        }
        if done == 0 && ended && way.packets.is_empty() { Err(()) } else { Ok(done) }
    }

    /// Sends a message of the direct way; `false`: no room.
    pub fn send(&mut self, from: End, message: &[u8]) -> bool {
        let to = from.other();
        let Some((way, _)) = self.way(to) else { return true };
        if way.bytes + message.len() > 4 * BYTES_UNDER_WAY_MOST {
            return false;
        }
        // Devices neither double nor reorder messages; but what is cut off does not arrive.
        if !self.is_lost(from) {
            let at =
                (self.now() + self.delay()).max(self.way(to).map_or(Duration::ZERO, |(way, _)| way.last_message()));
            let number = self.next;
            self.next += 1;
            if let Some((way, _)) = self.way(to) {
                way.bytes += message.len();
                way.messages.insert((at, number), message.to_vec());
            }
        }
        true
    }

    /// The next message that has arrived.
    pub fn receive(&mut self, end: End) -> Option<Vec<u8>> {
        let now = self.now();
        let (way, _) = self.way(end)?;
        let first = way.messages.first_entry().filter(|first| first.key().0 <= now)?;
        let message = first.remove();
        way.bytes -= message.len();
        Some(message)
    }

    /// When a one-sided read that begins now ends; `None`: never.
    pub fn read_ends(&mut self, end: End) -> Option<Duration> {
        if self.is_lost(end) {
            return None;
        }
        Some(self.now() + self.delay() + self.delay())
    }

    /// Turns one bit at times of what an end reads.
    pub fn damage(&mut self, end: End, bytes: &mut [u8]) {
        if self.random.chance(self.rates.damage) {
            let bit = self.random.below(bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.mangle(end.connection);
        }
    }

    pub fn is_direct(&self) -> bool {
        self.rates.direct
    }

    pub fn is_open(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
    }
}

impl Way {
    fn arrivals(&self) -> impl Iterator<Item = Duration> {
        let packet = self.packets.keys().map(|(at, _)| *at);
        packet.chain(self.messages.keys().map(|(at, _)| *at))
    }

    fn last_message(&self) -> Duration {
        self.messages.last_key_value().map_or(Duration::ZERO, |((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes from a caller until the bytes between the two were mangled, and gives what the called side reads.
    fn mangle_one(rates: SimRates, apart: bool) -> Vec<u8> {
        let network = SimNetwork::new(1, rates);
        network.part("a", "b", apart);
        let mut state = network.state.lock();
        state.listen("b");
        let from = state.connect("a", "b").unwrap();
        for byte in 0..2 {
            assert_eq!(state.write(from, &[byte]), Ok(1));
        }
        drop(state);
        assert!(network.mangled("a", "b") > 0 && network.mangled("b", "a") == network.mangled("a", "b"));
        assert_eq!(network.mangled("a", "c"), 0);
        network.clock().advance_to(Duration::from_secs(1));
        let mut bytes = [0; 8];
        let count = network.state.lock().read(from.other(), &mut bytes).unwrap();
        bytes[..count].to_vec()
    }

    #[test]
    fn whatever_befalls_bytes_of_a_wire_is_counted() {
        let well = SimRates::default();
        assert!(mangle_one(SimRates { drop: 1.0, ..well.clone() }, false).is_empty());
        assert!(mangle_one(well.clone(), true).is_empty());
        assert_eq!(mangle_one(SimRates { duplicate: 1.0, ..well.clone() }, false), [0, 0, 1, 1]);
        let damaged = mangle_one(SimRates { damage: 1.0, ..well.clone() }, false);
        assert!(damaged.len() == 2 && damaged != [0, 1], "{damaged:?}");
    }

    #[test]
    fn packets_are_counted_as_overtaken_when_they_are() {
        let network = SimNetwork::new(1, SimRates { reorder: 1.0, ..SimRates::default() });
        let mut state = network.state.lock();
        state.listen("b");
        let from = state.connect("a", "b").unwrap();
        let sent: Vec<u8> = (0..8).collect();
        sent.iter().for_each(|byte| assert_eq!(state.write(from, &[*byte]), Ok(1)));
        let keys = state.way(from.other()).unwrap().0.packets.keys().copied().collect::<Vec<_>>();
        let in_order = keys.is_sorted_by_key(|(_, number)| *number);
        drop(state);
        assert_eq!(in_order, network.mangled("a", "b") == 0);
        assert!(!in_order, "the seed reorders");
    }

    #[test]
    fn what_passes_unharmed_is_not_counted() {
        let network = SimNetwork::new(1, SimRates::default());
        let mut state = network.state.lock();
        state.listen("b");
        let from = state.connect("a", "b").unwrap();
        (0..100).for_each(|byte| assert_eq!(state.write(from, &[byte]), Ok(1)));
        state.damage(from, &mut [0; 8]);
        drop(state);
        assert_eq!(network.mangled("a", "b"), 0);
        network.set_rates(SimRates { damage: 1.0, ..SimRates::default() });
        network.state.lock().damage(from, &mut [0; 8]);
        assert_eq!(network.mangled("a", "b"), 1);
    }
}
