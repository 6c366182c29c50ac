//! The expansion of the registry: the plan's queue, and queues of any kind without dynamic dispatch.

/// Makes [`Queue`](crate::Queue), [`Admission`](crate::Admission) and [`AnyQdisc`](crate::AnyQdisc) of a list of
/// queues: those that decide at arrival, and those that decide at departure.
macro_rules! queues {
    (
        at arrival { $($arrival:ident = $early_file:ident::$early:ident;)+ }
        at departure { $($departure:ident = $late_file:ident::$late:ident;)+ }
    ) => {
        /// The plans of queues.
        pub mod plan {
            $(pub use crate::$early_file::$early;)+
            $(pub use crate::$late_file::$late;)+
        }
        use plan::*;

        /// A queue discipline.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
        pub enum Queue {
            $(#[allow(missing_docs, reason = "its plan says it")] $arrival($early),)+
            $(#[allow(missing_docs, reason = "its plan says it")] $departure($late),)+
        }

        $(impl From<$early> for Queue {
            fn from(queue: $early) -> Queue {
                Queue::$arrival(queue)
            }
        })+
        $(impl From<$late> for Queue {
            fn from(queue: $late) -> Queue {
                Queue::$departure(queue)
            }
        })+

        impl Queue {
            /// The hard limit.
            pub fn limit(&self) -> &Limit {
                match self {
                    $(Queue::$arrival(queue) => queue.limit(),)+
                    $(Queue::$departure(queue) => queue.limit(),)+
                }
            }

            /// The hard limit, mutable.
            pub fn limit_mut(&mut self) -> &mut Limit {
                match self {
                    $(Queue::$arrival(queue) => queue.limit_mut(),)+
                    $(Queue::$departure(queue) => queue.limit_mut(),)+
                }
            }

            /// Schedulers within one another; 0 for a queue without classes.
            pub(crate) fn depth(&self) -> usize {
                match self {
                    $(Queue::$arrival(queue) => queue.depth(),)+
                    $(Queue::$departure(queue) => queue.depth(),)+
                }
            }

            /// Checks new shares of its classes; `at` is their place in the plan.
            ///
            /// # Errors
            /// Its classes have no shares, or not as many; or the queue would be invalid with these.
            pub fn validate_shares(&self, shares: &[u64], at: &str) -> Result<(), Fault> {
                let mut changed = self.clone();
                let fits = match &mut changed {
                    $(Queue::$arrival(queue) => queue.set_shares(shares),)+
                    $(Queue::$departure(queue) => queue.set_shares(shares),)+
                };
                let problem = format!("the queue of the link has no {} classes with shares", shares.len());
                crate::declare::check(fits, || at.into(), problem)?;
                changed.validate(at)
            }

            /// See [`QueuePlan::set_token_rates`].
            pub(crate) fn set_token_rates(&mut self, rates: &mut std::slice::Iter<'_, TokenRates>) -> bool {
                match self {
                    $(Queue::$arrival(queue) => queue.set_token_rates(rates),)+
                    $(Queue::$departure(queue) => queue.set_token_rates(rates),)+
                }
            }

            /// Checks new rates of its token buckets; `at` is their place in the plan.
            ///
            /// # Errors
            /// It has more or fewer buckets, or one without a peak rate; or the queue would be invalid with these.
            pub fn validate_token_rates(&self, rates: &[TokenRates], at: &str) -> Result<(), Fault> {
                let mut changed = self.clone();
                let mut left = rates.iter();
                let fits = changed.set_token_rates(&mut left) && left.len() == 0;
                let problem = format!("the queue of the link has no {} token buckets with such rates", rates.len());
                crate::declare::check(fits && !rates.is_empty(), || at.into(), problem)?;
                changed.validate(at)
            }

            /// The declaration of its discipline.
            pub fn info(&self) -> ElementInfo {
                match self {
                    $(Queue::$arrival(_) => <$early as QueuePlan>::INFO,)+
                    $(Queue::$departure(_) => <$late as QueuePlan>::INFO,)+
                }
            }

            /// Checks the parameters; `at` is the place of the queue in the plan.
            ///
            /// # Errors
            /// The first invalid parameter.
            pub fn validate(&self, at: &str) -> Result<(), Fault> {
                self.limit().validate(at)?;
                match self {
                    $(Queue::$arrival(queue) => queue.validate(at),)+
                    $(Queue::$departure(queue) => queue.validate(at),)+
                }
            }
        }

        /// The declarations of all queues.
        const QUEUES: &[ElementInfo] =
            &[$(<$early as QueuePlan>::INFO,)+ $(<$late as QueuePlan>::INFO,)+];

        /// A discipline that decides at arrival only.
        #[derive(Clone, Debug)]
        pub enum Admission {
            $(#[allow(missing_docs, reason = "its type says it")] $arrival(<$early as AtArrival>::Admits),)+
        }

        impl Admission {
            /// The admission of the plan's queue; none if the discipline also decides at dequeue.
            pub fn from_plan(queue: &Queue, port: &Port, stream: Stream) -> Option<Admission> {
                match queue {
                    $(Queue::$arrival(queue) => Some(Admission::$arrival(queue.admission(port, stream))),)+
                    $(Queue::$departure(_) => None,)+
                }
            }

            /// Decides on a packet that arrives at `now` and finds `queue`.
            #[inline]
            pub fn admit(&mut self, now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
                match self {
                    $(Admission::$arrival(admission) => admission.admit(now, arrival, queue),)+
                }
            }

            /// Whether this queue surely admits a packet of `bytes` on the wire; never if the discipline draws.
            #[inline]
            pub fn has_room(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool {
                match self {
                    $(Admission::$arrival(admission) => admission.has_room(bytes, queue_bytes, queue_packets),)+
                }
            }

            /// A limit within which this queue admits all packets, whatever they are, and marks none.
            pub(crate) fn room(&self) -> DropTail {
                match self {
                    $(Admission::$arrival(admission) => admission.room(),)+
                }
            }

            /// Changes the rate of the transmitter.
            pub fn set_rate(&mut self, rate: Rate) {
                match self {
                    $(Admission::$arrival(admission) => admission.set_rate(rate),)+
                }
            }
        }

        /// A queue discipline of the plan.
        pub enum AnyQdisc<P: Packet + Send> {
            /// A queue that decides at arrival.
            Admission(AdmissionQueue<P>),
            $(#[allow(missing_docs, reason = "its type says it")] $departure(<$late as AtDeparture>::Qdisc<P>),)+
            /// A queue that no plan describes: a driver's own, such as a scheduler with children.
            Own(Box<dyn Qdisc<P> + Sync>),
        }

        impl<P: Packet + Send> AnyQdisc<P> {
            /// The queue of the plan for `port`; it draws from `stream`.
            pub fn from_plan(queue: &Queue, port: Port, stream: Stream) -> AnyQdisc<P> {
                match queue {
                    $(Queue::$arrival(queue) => {
                        let admission = Admission::$arrival(queue.admission(&port, stream));
                        AnyQdisc::Admission(AdmissionQueue::new(admission, port))
                    })+
                    $(Queue::$departure(queue) => AnyQdisc::$departure(queue.qdisc(port, stream)),)+
                }
            }
        }

        impl<P: Packet + Send> Qdisc<P> for AnyQdisc<P> {
            #[inline]
            fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
                match self {
                    AnyQdisc::Admission(queue) => queue.enqueue(now, packet, drops),
                    $(AnyQdisc::$departure(queue) => queue.enqueue(now, packet, drops),)+
                    AnyQdisc::Own(queue) => queue.enqueue(now, packet, drops),
                }
            }

            #[inline]
            fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
                match self {
                    AnyQdisc::Admission(queue) => queue.dequeue(now, drops),
                    $(AnyQdisc::$departure(queue) => queue.dequeue(now, drops),)+
                    AnyQdisc::Own(queue) => queue.dequeue(now, drops),
                }
            }

            fn bytes(&self) -> u64 {
                match self {
                    AnyQdisc::Admission(queue) => queue.bytes(),
                    $(AnyQdisc::$departure(queue) => queue.bytes(),)+
                    AnyQdisc::Own(queue) => queue.bytes(),
                }
            }

            fn packets(&self) -> u64 {
                match self {
                    AnyQdisc::Admission(queue) => queue.packets(),
                    $(AnyQdisc::$departure(queue) => queue.packets(),)+
                    AnyQdisc::Own(queue) => queue.packets(),
                }
            }

            fn counters(&self) -> &Counters {
                match self {
                    AnyQdisc::Admission(queue) => queue.counters(),
                    $(AnyQdisc::$departure(queue) => queue.counters(),)+
                    AnyQdisc::Own(queue) => queue.counters(),
                }
            }

            fn held_until(&self, now: Time) -> Option<Time> {
                match self {
                    AnyQdisc::Admission(queue) => queue.held_until(now),
                    $(AnyQdisc::$departure(queue) => queue.held_until(now),)+
                    AnyQdisc::Own(queue) => queue.held_until(now),
                }
            }

            fn classes(&self) -> u32 {
                match self {
                    AnyQdisc::Admission(queue) => queue.classes(),
                    $(AnyQdisc::$departure(queue) => queue.classes(),)+
                    AnyQdisc::Own(queue) => queue.classes(),
                }
            }

            fn class_of(&self, packet: &P) -> u32 {
                match self {
                    AnyQdisc::Admission(queue) => queue.class_of(packet),
                    $(AnyQdisc::$departure(queue) => queue.class_of(packet),)+
                    AnyQdisc::Own(queue) => queue.class_of(packet),
                }
            }

            fn set_rate(&mut self, now: Time, rate: Rate) {
                match self {
                    AnyQdisc::Admission(queue) => queue.set_rate(now, rate),
                    $(AnyQdisc::$departure(queue) => queue.set_rate(now, rate),)+
                    AnyQdisc::Own(queue) => queue.set_rate(now, rate),
                }
            }

            fn explicit(&mut self) -> Option<&mut dyn Explicit> {
                match self {
                    AnyQdisc::Admission(queue) => queue.explicit(),
                    $(AnyQdisc::$departure(queue) => queue.explicit(),)+
                    AnyQdisc::Own(queue) => queue.explicit(),
                }
            }

            fn set_shares(&mut self, now: Time, shares: &[u64]) {
                match self {
                    AnyQdisc::Admission(queue) => queue.set_shares(now, shares),
                    $(AnyQdisc::$departure(queue) => queue.set_shares(now, shares),)+
                    AnyQdisc::Own(queue) => queue.set_shares(now, shares),
                }
            }

            fn set_token_rates(&mut self, now: Time, rates: &mut std::slice::Iter<'_, TokenRates>) {
                match self {
                    AnyQdisc::Admission(queue) => queue.set_token_rates(now, rates),
                    $(AnyQdisc::$departure(queue) => queue.set_token_rates(now, rates),)+
                    AnyQdisc::Own(queue) => queue.set_token_rates(now, rates),
                }
            }
        }
    };
}
