//! Vectors as embedders make them: topics of uneven size, few true dimensions bent into many, one common direction.

/// SplitMix64: the same numbers on every run.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }

    /// About normal: four uniform numbers, variance one.
    fn normal(&mut self) -> f32 {
        ((0..4).map(|_| self.unit()).sum::<f32>() - 2.0) * 1.732
    }
}

/// A source of such vectors.
pub(super) struct Clustered {
    dimension: usize,
    chance: Chance,
    topics: Vec<[f32; LATENT]>,
    projection: Vec<[f32; LATENT]>,
    common: Vec<f32>,
}

const LATENT: usize = 24;

impl Clustered {
    pub(super) fn new(dimension: usize, topics: usize, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut latent = |size: f32| std::array::from_fn(|place| size * chance.normal() / (1.0 + place as f32 / 8.0));
        let topics = (0..topics).map(|_| latent(1.0)).collect();
        let projection = (0..dimension).map(|_| latent(0.5)).collect();
        let common = (0..dimension).map(|_| chance.normal() * 0.3).collect();
        Self { dimension, chance, topics, projection, common }
    }

    /// `count` vectors, one behind the other.
    pub(super) fn vectors(&mut self, count: usize) -> Vec<f32> {
        (0..count).flat_map(|_| self.one()).collect()
    }

    fn one(&mut self) -> Vec<f32> {
        // The product of two uniform numbers favours the first topics.
        let topic = (self.chance.unit() * self.chance.unit() * self.topics.len() as f32) as usize;
        let latent = self.topics[topic].map(|value| value + 0.4 * self.chance.normal());
        let along = |direction: &[f32; LATENT]| {
            direction.iter().zip(latent).map(|(left, right)| left * right).sum::<f32>().tanh()
        };
        let bent: Vec<f32> = self.projection.iter().map(along).collect();
        bent.iter().zip(&self.common).map(|(value, common)| value + common + 0.05 * self.chance.normal()).collect()
    }

    /// `count` questions, each near one of the given vectors.
    pub(super) fn near(&mut self, vectors: &[f32], count: usize) -> Vec<Vec<f32>> {
        let rows = vectors.len() / self.dimension;
        (0..count)
            .map(|_| {
                let start = self.chance.below(rows) * self.dimension;
                vectors[start..start + self.dimension].iter().map(|value| value + 0.1 * self.chance.normal()).collect()
            })
            .collect()
    }
}
