//! Named substreams of a seed, and the distributions of the scenario language.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_distr::Distribution as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// A reproducible source of random numbers: the substream called `name` of a run's seed.
///
/// Two streams with different names are independent; a stream does not change when another one is added or used.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: Xoshiro256PlusPlus,
}

impl Stream {
    /// The substream `name` of `seed`.
    pub fn new(seed: u64, name: &str) -> Stream {
        // FNV-1a spreads the name, SplitMix64 (inside `seed_from_u64`) spreads the result over the state.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Stream { rng: Xoshiro256PlusPlus::seed_from_u64(hash) }
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.rng.random::<f64>()
    }

    /// Uniform over all 64-bit numbers.
    pub fn bits(&mut self) -> u64 {
        self.rng.random::<u64>()
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// One draw from `distribution`.
    pub fn draw(&mut self, distribution: &Sampler) -> f64 {
        distribution.sample(&mut self.rng)
    }

    /// `n` draws from `distribution`.
    ///
    /// # Errors
    /// When a parameter is not finite or out of range.
    pub fn sample(&mut self, distribution: &Distribution, n: usize) -> Result<Vec<f64>, DistributionError> {
        let sampler = distribution.sampler()?;
        Ok((0..n).map(|_| self.draw(&sampler)).collect())
    }
}

/// A distribution of sizes (bytes), waits (nanoseconds) or factors, by its usual parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Distribution {
    /// Always `value`.
    Constant {
        /// The value.
        value: f64,
    },
    /// Uniform over `[low, high)`.
    Uniform {
        /// Least value.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Exponential with this mean.
    Exponential {
        /// Mean, the inverse of the rate.
        mean: f64,
    },
    /// Pareto type I: `P(X > x) = (scale / x)^shape` for `x >= scale`.
    Pareto {
        /// Least value.
        scale: f64,
        /// Tail index; the mean is infinite at 1 or less.
        shape: f64,
    },
    /// Lognormal: `exp(N(mu, sigma))`.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Weibull: `P(X > x) = exp(-(x / scale)^shape)`.
    Weibull {
        /// Scale.
        scale: f64,
        /// Shape.
        shape: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
}

/// A distribution whose parameters were checked.
#[derive(Clone, Debug)]
pub enum Sampler {
    /// See [`Distribution::Constant`].
    Constant(f64),
    /// See [`Distribution::Uniform`].
    Uniform(f64, f64),
    /// See [`Distribution::Exponential`].
    Exponential(rand_distr::Exp<f64>),
    /// See [`Distribution::Pareto`].
    Pareto(rand_distr::Pareto<f64>),
    /// See [`Distribution::Lognormal`].
    Lognormal(rand_distr::LogNormal<f64>),
    /// See [`Distribution::Weibull`].
    Weibull(rand_distr::Weibull<f64>),
    /// See [`Distribution::Normal`].
    Normal(rand_distr::Normal<f64>),
}

impl Sampler {
    fn sample(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Sampler::Constant(value) => *value,
            Sampler::Uniform(low, high) => low + (high - low) * rng.random::<f64>(),
            Sampler::Exponential(d) => d.sample(rng),
            Sampler::Pareto(d) => d.sample(rng),
            Sampler::Lognormal(d) => d.sample(rng),
            Sampler::Weibull(d) => d.sample(rng),
            Sampler::Normal(d) => d.sample(rng),
        }
    }
}

/// A parameter of a distribution is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributionError(&'static str);

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl std::error::Error for DistributionError {}

impl Distribution {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When a parameter is not finite or out of range.
    pub fn sampler(&self) -> Result<Sampler, DistributionError> {
        match *self {
            Distribution::Constant { value } if value.is_finite() => Ok(Sampler::Constant(value)),
            Distribution::Constant { .. } => Err(DistributionError("constant: the value must be finite")),
            Distribution::Uniform { low, high } if low.is_finite() && high.is_finite() && low <= high => {
                Ok(Sampler::Uniform(low, high))
            }
            Distribution::Uniform { .. } => Err(DistributionError("uniform: low must not exceed high")),
            Distribution::Exponential { mean } if mean > 0.0 && mean.is_finite() => rand_distr::Exp::new(1.0 / mean)
                .map(Sampler::Exponential)
                .map_err(|_| DistributionError("exponential: the mean must be positive")),
            Distribution::Exponential { .. } => Err(DistributionError("exponential: the mean must be positive")),
            Distribution::Pareto { scale, shape } => rand_distr::Pareto::new(scale, shape)
                .map(Sampler::Pareto)
                .map_err(|_| DistributionError("pareto: scale and shape must be positive")),
            Distribution::Lognormal { mu, sigma } if mu.is_finite() => rand_distr::LogNormal::new(mu, sigma)
                .map(Sampler::Lognormal)
                .map_err(|_| DistributionError("lognormal: sigma must be finite and not negative")),
            Distribution::Lognormal { .. } => Err(DistributionError("lognormal: mu must be finite")),
            Distribution::Weibull { scale, shape } => rand_distr::Weibull::new(scale, shape)
                .map(Sampler::Weibull)
                .map_err(|_| DistributionError("weibull: scale and shape must be positive")),
            Distribution::Normal { mean, sd } if mean.is_finite() => rand_distr::Normal::new(mean, sd)
                .map(Sampler::Normal)
                .map_err(|_| DistributionError("normal: the standard deviation must be finite and not negative")),
            Distribution::Normal { .. } => Err(DistributionError("normal: the mean must be finite")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(distribution: &Distribution) -> f64 {
        let n = 200_000;
        Stream::new(7, "mean").sample(distribution, n).unwrap().iter().sum::<f64>() / n as f64
    }

    #[test]
    fn a_stream_is_reproducible_and_its_name_matters() {
        let mut a = Stream::new(1, "starts");
        let mut b = Stream::new(1, "starts");
        let mut c = Stream::new(1, "sizes");
        let first = a.bits();
        assert_eq!(first, b.bits());
        assert_ne!(first, c.bits());
    }

    #[test]
    fn distributions_have_their_textbook_means() {
        // Standard errors here are under 0.5 % of the mean; the tolerance is six of them.
        let cases = [
            (Distribution::Exponential { mean: 3.0 }, 3.0),
            (Distribution::Uniform { low: 1.0, high: 5.0 }, 3.0),
            (Distribution::Pareto { scale: 1.0, shape: 3.0 }, 1.5),
            (Distribution::Lognormal { mu: 0.0, sigma: 0.5 }, 0.125f64.exp()),
            (Distribution::Weibull { scale: 2.0, shape: 1.0 }, 2.0),
        ];
        for (distribution, expected) in cases {
            let got = mean(&distribution);
            assert!((got / expected - 1.0).abs() < 0.03, "{distribution:?}: mean {got}, expected {expected}");
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Distribution::Pareto { scale: 0.0, shape: 1.0 }.sampler().is_err());
        assert!(Distribution::Exponential { mean: -1.0 }.sampler().is_err());
        assert!(Distribution::Uniform { low: 2.0, high: 1.0 }.sampler().is_err());
    }
}
