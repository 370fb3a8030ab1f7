/* Reference implementation for FAST: messages of the template Refresh to columns, by hand. */
#include <stdint.h>

#define COLUMNS 64

typedef struct {
    int64_t *columns[COLUMNS]; /* of messages from 0, of entries from 8 */
    uint64_t *masks;
    uint8_t *arena;
    int64_t rows, used;
} Out;

typedef struct {
    const uint8_t *p, *end;
    uint64_t map;
    int bad;
} In;

static inline void read_map(In *in)
{
    uint64_t word = 0;
    for (int left = 57; left > 0; left -= 7) {
        if (in->p >= in->end) { in->bad = 1; return; }
        uint8_t byte = *in->p++;
        word |= (uint64_t)(byte & 127) << left;
        if (byte > 127) break;
    }
    in->map = word;
}

static inline int bit(In *in)
{
    int found = in->map >> 63;
    in->map <<= 1;
    return found;
}

static inline uint64_t number(In *in)
{
    uint64_t value = 0;
    const uint8_t *start = in->p;
    for (;;) {
        if (in->p >= in->end || in->p - start > 9) { in->bad = 1; return 0; }
        uint8_t byte = *in->p++;
        value = value << 7 | (byte & 127);
        if (byte > 127) break;
    }
    in->bad |= in->p - start > 1 && *start == 0;
    return value;
}

static inline int64_t integer(In *in)
{
    const uint8_t *start = in->p;
    int64_t value = in->p < in->end && *in->p & 64 ? -1 : 0;
    for (;;) {
        if (in->p >= in->end || in->p - start > 9) { in->bad = 1; return 0; }
        uint8_t byte = *in->p++;
        value = (int64_t)((uint64_t)value << 7 | (byte & 127));
        if (byte > 127) break;
    }
    return value;
}

static inline int64_t text(In *in, Out *out)
{
    int64_t start = out->used;
    for (;;) {
        if (in->p >= in->end) { in->bad = 1; return 0; }
        uint8_t byte = *in->p++;
        out->arena[out->used++] = byte & 127;
        if (byte > 127) break;
    }
    return start << 32 | (out->used - start);
}

#define PUT(f, v) (mask |= 1ull << (f), out->columns[f][row] = (v))
#define NULLABLE_NUMBER(f) { uint64_t v = number(in); if (v) PUT(f, v - 1); }
#define DEFAULT_NUMBER(f) if (bit(in)) NULLABLE_NUMBER(f)
#define NULLABLE_TEXT(f) { if (in->p < in->end && *in->p == 0x80) in->p++; else PUT(f, text(in, out)); }
#define DEFAULT_TEXT(f) if (bit(in)) NULLABLE_TEXT(f)
#define COPY_NULLABLE(f, state, kept) \
    { if (bit(in)) { uint64_t v = number(in); state = v != 0; kept = v - 1; } if (state) PUT(f, kept); }
#define PRICE(f, initial, has_initial, kept) { \
    int64_t e = initial; int there = has_initial; \
    if (bit(in)) { e = integer(in); there = e != 0; if (e > 0) e--; } \
    if (there) { kept += integer(in); PUT(f, kept); out->columns[(f) + 1][row] = e; } }

int64_t refresh(const uint8_t *buffer, const int64_t *positions, const int64_t *ends, int64_t count,
                Out *out)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        In state = {buffer + positions[i], buffer + ends[i], 0, 0}, *in = &state;
        read_map(in);
        if (!bit(in) || number(in) != 152) { bad++; continue; }
        int64_t row = i;
        uint64_t mask = 0;
        out->columns[0][i] = number(in);
        out->columns[1][i] = number(in);
        { uint64_t v = number(in); if (v) out->columns[2][i] = v - 1; }
        int64_t entries = number(in);
        out->columns[3][i] = entries;
        int64_t action = 1, type = 48ll << 32 | 1, instrument = 0, counter = 0, time = 0, size = 0;
        int64_t day = 0, insert_day = 0, insert_time = 0, currency = 0, volume = 0;
        int has_day = 0, has_insert_day = 0, has_insert_time = 0, has_currency = 0;
        int64_t px[9] = {0}, underlying = 0, underlying_px = 0;
        for (int64_t e = 0; e < entries && !in->bad; e++) {
            row = out->rows++;
            mask = 0;
            read_map(in);
            if (bit(in)) action = number(in);
            PUT(8, action);
            if (bit(in)) type = text(in, out);
            PUT(9, type);
            if (bit(in)) instrument = number(in);
            PUT(10, instrument);
            counter = bit(in) ? (int64_t)number(in) : counter + 1;
            PUT(11, counter);
            DEFAULT_TEXT(12)
            PRICE(13, -2, 1, px[0])
            PRICE(15, -2, 1, px[1])
            DEFAULT_NUMBER(17)
            NULLABLE_TEXT(18)
            if (bit(in)) time = number(in);
            PUT(19, time);
            { int64_t v = integer(in); if (v) { size += v > 0 ? v - 1 : v; PUT(20, size); } }
            COPY_NULLABLE(21, has_day, day)
            COPY_NULLABLE(22, has_insert_day, insert_day)
            COPY_NULLABLE(23, has_insert_time, insert_time)
            DEFAULT_TEXT(24)
            PRICE(25, -2, 1, px[2])
            PRICE(27, -2, 1, px[3])
            PRICE(29, -2, 1, px[4])
            { if (bit(in)) { has_currency = *in->p != 0x80; currency = text(in, out); }
              if (has_currency) PUT(31, currency); }
            PRICE(32, 0, 0, px[5])
            DEFAULT_NUMBER(34)
            { int64_t v = integer(in); if (v) { volume += v > 0 ? v - 1 : v; PUT(35, volume); } }
            DEFAULT_TEXT(36)
            NULLABLE_TEXT(37)
            NULLABLE_NUMBER(38)
            NULLABLE_NUMBER(39)
            DEFAULT_TEXT(40)
            DEFAULT_TEXT(41)
            DEFAULT_TEXT(42)
            DEFAULT_TEXT(43)
            DEFAULT_NUMBER(44)
            NULLABLE_NUMBER(45)
            NULLABLE_NUMBER(46)
            NULLABLE_NUMBER(47)
            DEFAULT_TEXT(48)
            DEFAULT_NUMBER(49)
            PRICE(50, 0, 0, px[6])
            PRICE(52, 0, 0, px[7])
            PRICE(54, 0, 0, px[8])
            for (int f = 56; f < 64; f++) NULLABLE_NUMBER(f)
            { uint64_t n = number(in);
              for (uint64_t u = 1; u < n && !in->bad; u++) {
                  read_map(in);
                  underlying += integer(in);
                  if (bit(in)) integer(in);
                  underlying_px += integer(in);
                  number(in);
              } }
            number(in); /* IndexNumber */
            out->masks[row] = mask;
        }
        bad += in->bad || in->p != in->end;
    }
    return bad;
}
