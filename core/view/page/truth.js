// What a clause is of a block: as core/model/condition.h has it.

export const FALSE = 0;
export const TRUE = 1;
export const UNKNOWN = 2;

export const truth = (value) => (value ? TRUE : FALSE);
// Of several frames or names of which `any` fits.
export const several = (any, clause) => truth(any === (clause.compare !== "!="));
