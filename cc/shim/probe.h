/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * WEIR_PROBE(sk, "name", value): shows a value inside a congestion control. Where somebody samples the connection, each
 * sample has the value that the control showed last (table `probes` of a run).
 *
 * A name is a literal of 1 to 12 characters of a-z, A-Z, 0-9, '_', '.' and '-'; a control has at most 8. A value is a
 * whole number, which becomes an s64. Both can stand anywhere where `sk` is the connection. Where nobody samples, a
 * probe is one test that fails.
 */
#ifndef WEIR_SHIM_PROBE_H
#define WEIR_SHIM_PROBE_H

#define WEIR_MAX_PROBES 8
#define WEIR_PROBE_NAME_MAX 12

struct weir_probe {
	u64 name[2]; /* its characters from the lowest byte on; zero is a free place */
	s64 value;
};

/* The values of one connection: crates/weir-cc/src/probes.rs mirrors it. */
struct weir_probes {
	struct weir_probe probe[WEIR_MAX_PROBES];
	u64 refused[2]; /* a name for which there was no place */
};

/* The eight characters of a literal from `at` on, as a number that the compiler computes. */
#define WEIR_PROBE_CHAR(name, at) \
	((at) < sizeof(name) ? (u64)(u8)(name)[(at) < sizeof(name) ? (at) : 0] << (8 * ((at) % 8)) : 0)
#define WEIR_PROBE_WORD(name, at)                                                                              \
	(WEIR_PROBE_CHAR(name, (at) + 0) | WEIR_PROBE_CHAR(name, (at) + 1) | WEIR_PROBE_CHAR(name, (at) + 2) | \
	 WEIR_PROBE_CHAR(name, (at) + 3) | WEIR_PROBE_CHAR(name, (at) + 4) | WEIR_PROBE_CHAR(name, (at) + 5) | \
	 WEIR_PROBE_CHAR(name, (at) + 6) | WEIR_PROBE_CHAR(name, (at) + 7))

#define WEIR_PROBE(sk, name, value)                                                                            \
	do {                                                                                                   \
		_Static_assert(sizeof("" name) > 1 && sizeof("" name) <= WEIR_PROBE_NAME_MAX + 1,              \
			       "WEIR_PROBE(sk, '" name "', ...): a name has 1 to 12 characters");              \
		if (weir_probed(sk))                                                                           \
			weir_probe_show(sk, WEIR_PROBE_WORD(name, 0), WEIR_PROBE_WORD(name, 8), (s64)(value)); \
	} while (0)

/* Sets the value of a name, in the place that it has, or in the first free one. */
static __always_inline void weir_probe_store(struct weir_probes *probes, u64 name0, u64 name1, s64 value)
{
	u32 i;

	for (i = 0; i < WEIR_MAX_PROBES; i++) {
		struct weir_probe *probe = &probes->probe[i];

		if (!probe->name[0]) {
			probe->name[0] = name0;
			probe->name[1] = name1;
		}
		if (probe->name[0] == name0 && probe->name[1] == name1) {
			probe->value = value;
			return;
		}
	}
	probes->refused[0] = name0;
	probes->refused[1] = name1;
}

#endif
