/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The largest value of a sliding window in constant space: the best, the second best and the third best sample, each
 * newer than the one before (Kathleen Nichols' filter, as Linux keeps it). The result may be a quarter of a window
 * late.
 */
#ifndef WEIR_MINMAX_H
#define WEIR_MINMAX_H

struct weir_sample {
	u32 t;
	u32 v;
};

struct weir_max {
	struct weir_sample s[3];
};

static __always_inline void weir_max_reset(struct weir_max *m, u32 t, u32 v)
{
	m->s[0].t = m->s[1].t = m->s[2].t = t;
	m->s[0].v = m->s[1].v = m->s[2].v = v;
}

/* The best is too old, or has been for so long the only one that a fresher second or third is due. */
static __always_inline void weir_max_age(struct weir_max *m, u32 window, struct weir_sample now)
{
	u32 age = now.t - m->s[0].t;

	if (age > window) {
		m->s[0] = m->s[1];
		m->s[1] = m->s[2];
		m->s[2] = now;
		if (now.t - m->s[0].t > window) {
			m->s[0] = m->s[1];
			m->s[1] = m->s[2];
		}
	} else if (m->s[1].t == m->s[0].t && age > window / 4) {
		m->s[1] = now;
		m->s[2] = now;
	} else if (m->s[2].t == m->s[1].t && age > window / 2) {
		m->s[2] = now;
	}
}

/* Adds the value v of time t to the maximum over `window` units of time. */
static __always_inline void weir_max_add(struct weir_max *m, u32 window, u32 t, u32 v)
{
	struct weir_sample now = {t, v};

	if (v >= m->s[0].v || t - m->s[2].t > window) {
		weir_max_reset(m, t, v);
		return;
	}
	if (v >= m->s[1].v) {
		m->s[1] = now;
		m->s[2] = now;
	} else if (v >= m->s[2].v) {
		m->s[2] = now;
	}
	weir_max_age(m, window, now);
}

static __always_inline u32 weir_max_get(const struct weir_max *m)
{
	return m->s[0].v;
}

#endif
