-- The project of a source, as its client described it; empty if it did not.
ALTER TABLE source ADD COLUMN identity text NOT NULL DEFAULT '';

-- Projects whose rules apply to the rows of an owner. The rules are notes.
ALTER TABLE owner ADD COLUMN projects text[] NOT NULL DEFAULT '{}';
ALTER TABLE owner DROP CONSTRAINT owner_person_teams_key;
ALTER TABLE owner ADD UNIQUE (person, teams, projects);
