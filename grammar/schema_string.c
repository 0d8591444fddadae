/* Strings: lengths, patterns, formats. One condition alone is spelled out as it is; several become one automaton. */
#include "grammar/schema.h"

#include <string.h>

#define LEAP "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29"
#define DATE                                                                                                           \
    "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"                     \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP ")"
#define TIME  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])"
#define N     "[0-9]{1,4}"
#define CLOCK "(T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S))"
#define DAYS  "(" N "D" CLOCK "?)"
#define DAYS2 "(" N "Y(" N "M(" N "D)?)?|" N "M(" N "D)?|" N "D)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define ATOM  "[A-Za-z0-9_%+-]{1,30}"
#define BYTE  "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  BYTE "[.]" BYTE "[.]" BYTE "[.]" BYTE
#define H     "[0-9a-fA-F]{1,4}"
#define HEX   "[0-9a-fA-F]"
#define SAFE  "[A-Za-z0-9._~!$&'()*+,;=:@-]"

/* What a format stands for; RFC 3339, 1123, 5321 (the usual part), 2373, 4122 and 3986 (with an authority). */
static const struct format {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(" DAYS2 CLOCK "?|" CLOCK "|" N "W)"},
    {"email", ATOM "([.]" ATOM "){0,3}@(" LABEL "[.]){1,4}[A-Za-z]{2,10}"},
    {"hostname", LABEL "([.]" LABEL "){0,6}"},
    {"ipv4", IPV4},
    {"ipv6", "((" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H ":){1,4}(:" H
             "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H "){1,6}|:((:" H "){1,7}|:))"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"uri", "[a-z][a-z0-9+.-]{0,15}://" LABEL "([.]" LABEL "){0,6}(:[1-9][0-9]{0,3})?(/" SAFE "{0,60}){0,8}([?]" SAFE
            "{0,100})?(#" SAFE "{0,60})?"},
};

/* NULL: the format is not known, and so says nothing (JSON Schema takes formats as notes). */
static const char *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}

static bool binds(const roco_facts *facts, uint32_t i)
{
    return !facts->formats[i] || find_format(facts->patterns[i]->text);
}

static bool has_length(const roco_facts *facts)
{
    return facts->min_length > 0 || facts->max_length != ROCO_UNLIMITED;
}

bool roco_facts_bind_strings(const roco_facts *facts)
{
    bool some = has_length(facts);
    for (uint32_t i = 0; i < facts->n_patterns; i++)
        some = some || binds(facts, i);
    return some;
}

/* The texts of one pattern or format. */
static roco_expr pattern_expr(roco_schema *s, const roco_facts *facts, uint32_t i, bool json)
{
    const roco_json_value *value = facts->patterns[i];
    const char *text = value->text;
    roco_regex_use use = json ? ROCO_REGEX_SEARCH_JSON : ROCO_REGEX_SEARCH;
    roco_expr expr = 0;
    roco_error error = {0};
    if (facts->formats[i]) {
        text = find_format(text);
        use = ROCO_REGEX_WHOLE;
    }
    const roco_status status =
        roco_regex_parse(s->grammar, s->field, "pattern", text, strlen(text), use, &expr, &error);
    return status ? roco_schema_fail(s, status, value, "", error.message) : expr;
}

static roco_dfa *narrow(roco_schema *s, roco_dfa *dfa, roco_dfa *more)
{
    roco_dfa *both = dfa && more ? roco_dfa_both(s->grammar, dfa, more) : NULL;
    roco_dfa_close(dfa);
    roco_dfa_close(more);
    return both;
}

roco_dfa *roco_schema_string_dfa(roco_schema *s, const roco_facts *facts)
{
    roco_dfa *dfa = roco_dfa_any(s->grammar);
    for (uint32_t i = 0; dfa && i < facts->n_patterns; i++)
        if (binds(facts, i)) {
            const roco_expr expr = pattern_expr(s, facts, i, false);
            dfa = narrow(s, dfa, s->status ? NULL : roco_dfa_from_expr(s->grammar, expr));
        }
    if (dfa && has_length(facts))
        dfa = narrow(s, dfa, roco_dfa_length(s->grammar, facts->min_length, facts->max_length));
    return dfa;
}

roco_expr roco_schema_string(roco_schema *s, const roco_facts *facts)
{
    roco_grammar *g = s->grammar;
    const roco_json_text *json = roco_grammar_json(g);
    const roco_expr quote = roco_grammar_word(g, "\"");
    uint32_t n = 0, last = 0;
    for (uint32_t i = 0; i < facts->n_patterns; i++)
        if (binds(facts, i)) {
            n++;
            last = i;
        }
    roco_expr text;
    if (n == 0 && !has_length(facts))
        return json->string;
    if (n == 0)
        text = roco_grammar_repeat(g, json->character, facts->min_length, facts->max_length);
    else if (n == 1 && !has_length(facts))
        text = pattern_expr(s, facts, last, true);
    else {
        roco_dfa *dfa = roco_schema_string_dfa(s, facts);
        text = dfa ? roco_grammar_graph(g, dfa, true) : 0;
    }
    return roco_grammar_sequence(g, (const roco_expr[]){quote, text, quote}, 3);
}
