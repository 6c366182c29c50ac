//! Arbiters that match all free inputs with all free outputs: an input sends to one output at a time.

use weir_plan::Arbiter as Plan;
use weir_units::Stream;

/// The choice of a port among several that ask for it.
enum Choice {
    /// iSLIP: by pointers that move when a grant of the first round is accepted.
    Pointers { grant: Vec<usize>, accept: Vec<usize> },
    /// PIM: at random.
    Random(Stream),
}

/// A matching arbiter.
pub(crate) struct Matching {
    choice: Choice,
    iterations: u32,
    /// By output, in the present round: the input that it has granted.
    granted: Vec<Option<usize>>,
    /// The pairs of input and output of the last matching.
    pub matched: Vec<(usize, usize)>,
}

impl Matching {
    /// The arbiter of a plan, if it is a matching one.
    pub fn new(plan: &Plan, inputs: usize, outputs: usize, stream: impl FnOnce() -> Stream) -> Option<Matching> {
        let (choice, iterations) = match plan {
            Plan::Islip { iterations } => {
                (Choice::Pointers { grant: vec![0; outputs], accept: vec![0; inputs] }, *iterations)
            }
            Plan::Pim { iterations } => (Choice::Random(stream()), *iterations),
            _ => return None,
        };
        Some(Matching { choice, iterations, granted: vec![None; outputs], matched: Vec::new() })
    }

    /// Matches ports that are free in `inputs` and `outputs`; `wants` says whether an input has a packet for an output.
    /// Matched ports are no longer free.
    pub fn run(&mut self, inputs: &mut [bool], outputs: &mut [bool], wants: impl Fn(usize, usize) -> bool) {
        self.matched.clear();
        for round in 0..self.iterations {
            self.grant(inputs, outputs, &wants);
            let before = self.matched.len();
            self.accept(inputs, outputs, round == 0);
            if self.matched.len() == before {
                break;
            }
        }
    }

    fn grant(&mut self, inputs: &[bool], outputs: &[bool], wants: &impl Fn(usize, usize) -> bool) {
        for (output, free) in outputs.iter().enumerate() {
            let asks = |input: &usize| *free && inputs[*input] && wants(*input, output);
            self.granted[output] = match &mut self.choice {
                Choice::Pointers { grant, .. } => in_turn(grant[output], inputs.len()).find(asks),
                Choice::Random(stream) => at_random(stream, (0..inputs.len()).filter(asks)),
            };
        }
    }

    fn accept(&mut self, inputs: &mut [bool], outputs: &mut [bool], first: bool) {
        for input in 0..inputs.len() {
            let granted = &self.granted;
            let gives = |output: &usize| granted[*output] == Some(input);
            let chosen = match &mut self.choice {
                Choice::Pointers { accept, .. } => in_turn(accept[input], granted.len()).find(gives),
                Choice::Random(stream) => at_random(stream, (0..granted.len()).filter(gives)),
            };
            let Some(output) = chosen else { continue };
            (inputs[input], outputs[output]) = (false, false);
            self.matched.push((input, output));
            if let (Choice::Pointers { grant, accept }, true) = (&mut self.choice, first) {
                (grant[output], accept[input]) = (input + 1, output + 1);
            }
        }
    }
}

fn in_turn(from: usize, count: usize) -> impl Iterator<Item = usize> {
    (from..count).chain(0..from.min(count))
}

fn at_random(stream: &mut Stream, mut ports: impl Iterator<Item = usize>) -> Option<usize> {
    let mut chosen = ports.next()?;
    for (seen, port) in (2..).zip(ports) {
        if (u128::from(stream.bits()) * seen) >> 64 == 0 {
            chosen = port;
        }
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches of each pair in 1000 slots in which all inputs of 4 have packets for all outputs.
    fn slots(plan: &Plan) -> ([[u32; 4]; 4], Vec<usize>) {
        let mut matching = Matching::new(plan, 4, 4, || Stream::new(1, "test")).expect("it is a matching");
        let (mut counts, mut sizes) = ([[0; 4]; 4], Vec::new());
        for _ in 0..1000 {
            matching.run(&mut [true; 4], &mut [true; 4], |_, _| true);
            sizes.push(matching.matched.len());
            for (input, output) in &matching.matched {
                counts[*input][*output] += 1;
            }
        }
        (counts, sizes)
    }

    #[test]
    fn islip_desynchronises_into_a_full_and_fair_matching() {
        // McKeown, section III: with one iteration the pointers part, and every slot is used.
        let (counts, sizes) = slots(&Plan::Islip { iterations: 1 });
        assert!(sizes[20..].iter().all(|size| *size == 4), "{sizes:?}");
        assert!(counts.iter().flatten().all(|count| count.abs_diff(250) < 10), "{counts:?}");
    }

    #[test]
    fn pim_matches_at_random_and_wastes_slots_with_one_iteration() {
        // Anderson et al., section 3.3: one iteration fills 1 - (1 - 1/n)^n of the slots, 68 % with 4 ports.
        let (counts, sizes) = slots(&Plan::Pim { iterations: 1 });
        let share = sizes.iter().sum::<usize>() as f64 / 4000.0;
        assert!((share - 0.684).abs() < 0.02, "{share}");
        assert!(counts.iter().flatten().all(|count| count.abs_diff(171) < 50), "{counts:?}");
        let (_, sizes) = slots(&Plan::Pim { iterations: 4 });
        assert!(sizes.iter().all(|size| *size == 4), "four iterations leave no pair unmatched");
    }
}
