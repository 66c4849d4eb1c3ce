//! What a seed says: how the database is made, who does what in it, and what goes wrong with its devices.

mod kind;
mod scene;
mod trouble;

use std::collections::BTreeSet;

use saki_base::Random;
use saki_base::planted::Fault;

pub use self::kind::Kind;
use self::kind::Mixture;
pub use self::scene::Scene;
pub use self::trouble::{Counted, Cut, Trouble, Weather};
use crate::setup::Setup;
use crate::tables::Tables;
use crate::tables::focus::Focus;

/// Worlds that end before their work is done, at most.
const CUTS_MAX: u64 = 6;
/// The same, of a seed that has many.
const CUTS_MANY: u64 = 12;
/// How many seeds have a device that lies.
const LIARS: f64 = 0.1;

/// All that a seed decides beforehand. What each step does follows from its own seed and from what is there then.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    /// What it is bent to, if it is.
    pub scene: Option<Scene>,
    pub setup: Setup,
    pub focus: Focus,
    /// By client, in order.
    pub steps: Vec<Vec<Step>>,
    /// How worlds end, one after the other.
    pub cuts: Vec<Cut>,
    /// By restart.
    pub weather: Vec<Vec<Weather>>,
}

/// What one client does at once: a statement, or a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// In the whole script.
    pub number: usize,
    pub kind: Kind,
    pub seed: u64,
}

/// What a command line says about a script.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Steps, and after them cuts and weather, that are left out: by number.
    pub without: BTreeSet<usize>,
    /// Steps of each client are of these kinds, if any are given: client by client.
    pub only: Vec<Kind>,
    /// Kinds that no step is of.
    pub never: Vec<Kind>,
    /// Steps of a client; `None`: the seed's choice.
    pub steps: Option<u64>,
    /// Nothing goes wrong.
    pub is_calm: bool,
    /// What the script is bent to; `None`: the seed's choice.
    pub scene: Option<Scene>,
    /// What is wrong with the engine.
    pub fault: Fault,
}

impl Script {
    pub fn new(seed: u64, choices: &Choices) -> Self {
        // What is rare has a random of its own: it is left out, and the rest stays as it is.
        let mut rare = Random::new(seed ^ 0x5ce2e);
        let drawn = Scene::draw(&mut rare).filter(|_| choices.only.is_empty());
        let scene = choices.scene.or(drawn);
        let mut random = Random::new(seed);
        let mut setup = Setup::draw(&mut random);
        if let Some(scene) = scene {
            scene.bend(&mut setup);
        }
        let clients = match choices.only.len() {
            0 => random.range(2..6).max(scene.map_or(0, Scene::clients)) as usize,
            count => count,
        };
        let tables = Tables { owners: clients };
        let focus = Focus::draw(&mut random, tables);
        let focus = scene.map_or(focus, |scene| scene.focus(tables));
        let mixtures = mixtures(&mut random, clients, scene);
        let most = if random.chance(0.3) { 48 } else { 24 };
        let each = random.range(6..most);
        let each = choices.steps.unwrap_or(scene.map_or(each, |scene| scene.steps(each)));
        let mut numbers = 0..;
        let mut next = || numbers.next().expect("without end");
        let mut steps = vec![Vec::new(); clients];
        for (client, steps) in steps.iter_mut().enumerate() {
            for _ in 0..each {
                let mixture = &mixtures[client % mixtures.len()];
                let (kind, seed) = (mixture.any(&mut random), random.next_u64());
                let kind = choices.only.get(client).copied().unwrap_or(kind);
                let step = Step { number: next(), kind, seed };
                if !choices.without.contains(&step.number) && !choices.never.contains(&kind) {
                    steps.push(step);
                }
            }
        }
        let (mut cuts, mut weather) = troubles(&mut random, &mut rare, scene);
        cuts.retain(|_| !choices.without.contains(&next()));
        weather.iter_mut().for_each(|all| all.retain(|_| !choices.without.contains(&next())));
        if choices.is_calm {
            cuts.clear();
            weather.clear();
        }
        Self { seed, scene, setup, focus, steps, cuts, weather }
    }

    /// How many numbers of steps, cuts and weather there are.
    pub fn parts(seed: u64, choices: &Choices) -> usize {
        let whole = Self::new(seed, &Choices { without: BTreeSet::new(), ..choices.clone() });
        let steps: usize = whole.steps.iter().map(Vec::len).sum();
        steps + whole.cuts.len() + whole.weather.iter().map(Vec::len).sum::<usize>()
    }
}

/// One for all clients, or one for each.
fn mixtures(random: &mut Random, clients: usize, scene: Option<Scene>) -> Vec<Mixture> {
    // In some, each client has a mixture of its own: one reads, another one alters, and they do little else.
    let is_apart = random.chance(0.3);
    let count = if is_apart { clients } else { 1 };
    let drawn = (0..count).map(|_| Mixture::draw(random, is_apart)).collect();
    scene.map_or(drawn, |scene| (0..clients).map(|client| scene.mixture(client)).collect())
}

/// How worlds end, and their weather.
fn troubles(random: &mut Random, rare: &mut Random, scene: Option<Scene>) -> (Vec<Cut>, Vec<Vec<Weather>>) {
    let count = match random.below(6) {
        0 => 0,
        1 => CUTS_MANY,
        _ => random.range(1..CUTS_MAX),
    };
    let count = scene.map_or(count, |scene| scene.cuts(count));
    let mut cuts: Vec<Cut> = Vec::new();
    for _ in 0..count {
        let drawn = Cut::draw(random, cuts.last());
        cuts.push(scene.and_then(|scene| scene.cut(rare)).unwrap_or(drawn));
    }
    let mut weather: Vec<Vec<Weather>> = (0..=count).map(|_| Weather::draw(random)).collect();
    if rare.chance(LIARS) {
        weather[rare.below(count.min(2) + 1) as usize].push(Weather::of_a_liar(rare));
    }
    (cuts, weather)
}
