"""The corruption campaign: seeded damage to stores in memory, and what loading, verifying and repairing make of it."""
